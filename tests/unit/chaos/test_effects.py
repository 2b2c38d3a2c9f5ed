"""The oracle of connections: which fault may have broken which connection."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos.connections import ClientKind, Connection, read_lines
from chaos.effects import HINDRANCES, Oracle
from chaos.faults import FaultKind, Occurrence
from chaos.report import describe_delays, describe_effects

DOCS = Path(__file__).parents[3] / "docs" / "chaos.md"
NEW, KEPT, DNS = ClientKind.CLUSTER_IP, ClientKind.ESTABLISHED, ClientKind.DNS


def failed(
    start: float,
    end: float,
    kind: ClientKind = NEW,
    source: str = "node1",
    entry: str = "",
    nodes: tuple[str, ...] = ("node2",),
    service: str = "web",
    problem: str = "connect: Connection refused",
) -> Connection:
    """A connection from node1 to a pod on node2, unless the arguments differ."""
    return Connection(source, source, kind, service, entry or source, frozenset(nodes), start, end, problem)


def fault(kind: FaultKind, start: float, end: float, node: str = "", service: str = "") -> Occurrence:
    return Occurrence(kind, start, end, node, service)


def is_explained(connection: Connection, *faults: Occurrence, mode: str = "nftables") -> bool:
    return Oracle(faults, mode).explain(connection) is not None


def test_without_a_fault_no_failure_is_explained() -> None:
    assert not is_explained(failed(10, 11))


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.KILL_API_SERVER,
        FaultKind.STOP_API_SERVER,
        FaultKind.KILL_CONTROLLERS,
        FaultKind.STOP_CONTROLLERS,
        FaultKind.KILL_KUBELET,
        FaultKind.STOP_KUBELET,
        FaultKind.STOP_RUNTIME,
        FaultKind.KILL_PROXY,
        FaultKind.STOP_PROXY,
        FaultKind.FULL_DISK,
        FaultKind.SECOND_PROXY,
    ],
)
def test_stopped_control_plane_parts_explain_no_failed_connection(kind: FaultKind) -> None:
    for client in ClientKind:
        for node in ("", "node1", "node2"):
            assert not is_explained(failed(10, 11, client), fault(kind, 9, 12, node))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(1, 9.9, False), (1, 10, True), (14, 15, True), (22.9, 24, True), (23.1, 24, False)],
)
def test_a_fault_explains_failures_in_its_time_only(start: float, end: float, expected: bool) -> None:
    assert is_explained(failed(start, end), fault(FaultKind.PARTITION, 10, 20, "node2")) == expected


@pytest.mark.parametrize(
    ("source", "entry", "nodes", "cut", "expected"),
    [
        ("lab", "node1", ("node2",), "node1", True),
        ("lab", "node1", ("node2",), "node2", True),
        ("lab", "node1", ("node2",), "node3", False),
        ("node3", "node3", ("node2",), "node3", True),
        ("node3", "node3", ("node3",), "node3", False),  # it never leaves the node
        ("node3", "node1", ("node3",), "node1", True),
        ("node1", "node1", ("node1", "node2", "node3"), "node3", True),
    ],
)
def test_a_partition_explains_connections_over_the_cut_link_only(
    source: str, entry: str, nodes: tuple[str, ...], cut: str, expected: bool
) -> None:
    connection = failed(10, 11, source=source, entry=entry, nodes=nodes)
    assert is_explained(connection, fault(FaultKind.PARTITION, 9, 12, cut)) == expected


@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_flushed_rules_explain_connections_through_that_node_only(mode: str) -> None:
    connection = failed(10, 10.1, source="lab", entry="node1")
    assert is_explained(connection, fault(FaultKind.FLUSH_RULES, 9.9, 9.9, "node1"), mode=mode)
    assert not is_explained(connection, fault(FaultKind.FLUSH_RULES, 9.9, 9.9, "node2"), mode=mode)


def test_in_userspace_mode_a_killed_proxy_explains_broken_connections() -> None:
    connection = failed(10, 11, KEPT)
    killed = fault(FaultKind.KILL_PROXY, 10.5, 10.5, "node1")
    assert is_explained(connection, killed, mode="userspace")
    assert not is_explained(connection, killed, mode="nftables")
    assert not is_explained(connection, fault(FaultKind.KILL_PROXY, 10.5, 10.5, "node2"), mode="userspace")


def test_a_stopped_proxy_delays_the_repair_on_its_own_node_only() -> None:
    late, flushed = failed(25, 26), fault(FaultKind.FLUSH_RULES, 10, 10, "node1")
    assert is_explained(late, flushed, fault(FaultKind.STOP_PROXY, 9, 23, "node1"))
    assert not is_explained(late, flushed, fault(FaultKind.STOP_PROXY, 9, 23, "node2"))
    assert not is_explained(late, flushed, fault(FaultKind.STOP_API_SERVER, 9, 23))


def test_the_end_of_a_partition_is_not_delayed_by_other_faults() -> None:
    late, cut = failed(25, 26), fault(FaultKind.PARTITION, 10, 15, "node2")
    assert not is_explained(
        late,
        cut,
        *(
            fault(kind, 12, 24, "node2")
            for kind in HINDRANCES
            if kind is not cut.kind and kind not in (FaultKind.KILL_RUNTIME, FaultKind.PACKET_LOSS, FaultKind.SLOW_LINK)
        ),
    )


def test_a_killed_backend_explains_failures_of_its_service_only() -> None:
    killed = fault(FaultKind.KILL_BACKEND, 10, 10, "node2", "web")
    assert is_explained(failed(10, 11), killed)
    assert not is_explained(failed(10, 11, service="other"), killed)
    assert not is_explained(failed(10, 11, DNS, service="kube-dns"), killed)


def test_a_rollout_explains_failures_of_kept_connections_only() -> None:
    rollout = fault(FaultKind.REPLACE_PODS, 10, 14, service="web")
    assert not is_explained(failed(11, 12), rollout)
    assert is_explained(failed(11, 12, KEPT), rollout)


def test_a_delayed_rollout_explains_failures_of_new_connections() -> None:
    rollout = fault(FaultKind.REPLACE_PODS, 10, 14, service="web")
    assert is_explained(failed(11, 12), rollout, fault(FaultKind.STOP_API_SERVER, 10, 12))
    assert is_explained(failed(17, 18), rollout, fault(FaultKind.STOP_PROXY, 8, 16, "node1"))
    assert is_explained(failed(17, 18), rollout, fault(FaultKind.STOP_KUBELET, 8, 16, "node3"))
    assert not is_explained(failed(17, 18), rollout, fault(FaultKind.STOP_PROXY, 8, 16, "node2")), "not its entry"
    assert not is_explained(failed(11, 12), rollout, fault(FaultKind.STOP_API_SERVER, 0, 6.9))
    assert not is_explained(failed(11, 12), rollout, fault(FaultKind.STOP_API_SERVER, 30, 31))
    assert not is_explained(failed(11, 12), rollout, fault(FaultKind.SECOND_PROXY, 10, 12, "node1"))


def test_a_delaying_fault_extends_the_effect_of_another() -> None:
    killed = fault(FaultKind.KILL_BACKEND, 10, 13, "node2", "web")
    late = failed(25, 26)
    assert not is_explained(late, killed)
    assert is_explained(late, killed, fault(FaultKind.STOP_API_SERVER, 12, 20))
    assert is_explained(late, killed, fault(FaultKind.STOP_KUBELET, 12, 20, "node2"))
    assert not is_explained(late, killed, fault(FaultKind.STOP_KUBELET, 12, 20, "node3"))
    # A fault that begins after all was over explains nothing.
    assert not is_explained(late, killed, fault(FaultKind.STOP_API_SERVER, 18.1, 24))


def test_the_slack_factor_extends_all_effects() -> None:
    late, killed = failed(20, 21), fault(FaultKind.KILL_BACKEND, 10, 13, "node2", "web")
    assert Oracle([killed], "nftables").explain(late) is None
    assert Oracle([killed], "nftables", slack=2).explain(late) is killed


@pytest.mark.parametrize(
    ("kills", "until"),
    [([], 108), ([50], 118), ([20, 50], 128), ([0, 20, 50], 148), ([-560], 108), ([-560, 30], 128)],
)
def test_containers_that_ended_often_are_started_later(kills: list[float], until: float) -> None:
    faults = [fault(FaultKind.KILL_RUNTIME, start, start, "node2") for start in [*kills, 100]]
    assert is_explained(failed(until - 1, until), *faults)
    assert not is_explained(failed(until + 1, until + 2), *faults)
    # Other pods serve, or others ended.
    assert not is_explained(failed(109, 110, nodes=("node2", "node3")), *faults)
    assert not is_explained(failed(109, 110, nodes=("node3",)), *faults)


@pytest.mark.parametrize("node", ["node1", "node2"])
def test_no_fault_explains_an_answer_of_another_service(node: str) -> None:
    misled = failed(10, 11, problem="answered by other-6d5f-abcde")
    assert not is_explained(misled, fault(FaultKind.PARTITION, 9, 12, node))
    assert not is_explained(misled, fault(FaultKind.KILL_BACKEND, 9, 12, "node2", "web"))


def test_the_page_has_the_tables_of_the_code() -> None:
    text = DOCS.read_text("utf-8")
    assert "\n".join(describe_effects()) in text
    assert "\n".join(describe_delays()) in text


def test_lines_of_clients_are_parsed() -> None:
    line = (
        '{"client": "lab", "source": "lab", "kind": "dns", "service": "kube-dns", "entry": "node1", "nodes": ["node1"],'
        ' "start": 1.5, "end": 2.5, "problem": "no answer"}'
    )
    made, found = read_lines(['{"made": {"dns": 3}}', line, '{"made": {"dns": 1, "node-port": 2}}', '{"made": {"d'])
    assert made == {ClientKind.DNS: 4, ClientKind.NODE_PORT: 2}
    assert found == [
        Connection("lab", "lab", ClientKind.DNS, "kube-dns", "node1", frozenset({"node1"}), 1.5, 2.5, "no answer")
    ]
