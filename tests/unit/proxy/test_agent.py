"""The agent between a scripted API and a scripted kernel: what is recompiled, when it syncs, what it survives."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from bridgehead.exposition.formats import render
from bridgehead.network.conntrack import Flow
from bridgehead.network.listening_ports import Listener
from bridgehead.objects.core import Node, Service
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, SERVICE_CIDRS, SERVICES
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy import agent as agent_module
from bridgehead.proxy import guard as guard_module
from bridgehead.proxy import node_listeners
from bridgehead.proxy.agent import ProxyAgent
from bridgehead.proxy.config import ProxyConfig
from bridgehead.proxy.conntrack.reconciler import ConntrackReconciler
from bridgehead.proxy.errors import Refused
from bridgehead.proxy.frontend_table import FrontendTable, Update
from bridgehead.proxy.mode import Settings
from bridgehead.proxy.node_facts import plan_node
from bridgehead.proxy.operating.progress import KnownNodes
from bridgehead.proxy.service_frontends import compile_service
from tests.unit.proxy.agent_world import CONFIG, ScriptedApi, ScriptedMode, eventually, running, service, slice_of


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
def mode() -> ScriptedMode:
    return ScriptedMode()


async def test_the_first_sync_has_everything_and_later_ones_only_changes(api: ScriptedApi, mode: ScriptedMode) -> None:
    for number in range(5):
        api.put(SERVICES, service(f"s{number}", f"10.96.0.{number + 1}"))
        api.put(ENDPOINT_SLICES, slice_of(f"s{number}", "10.244.1.1", "10.244.1.2"))
    async with running(api, mode):
        assert mode.synced == [{f"10.96.0.{number + 1}:80/tcp": 2 for number in range(5)}]

        api.put(ENDPOINT_SLICES, slice_of("s3", "10.244.1.1"))
        await eventually(lambda: len(mode.applied) == 1)

        (update,) = mode.applied[0]
        (change,) = update.changes
        assert change.new is not None
        assert (str(change.new.key), len(change.new.backends)) == ("10.96.0.4:80/tcp", 1)
        assert len(mode.synced) == 1


async def test_simultaneous_changes_make_one_transaction(api: ScriptedApi, mode: ScriptedMode) -> None:
    async with running(api, mode):
        for number in range(5):
            api.put(SERVICES, service(f"s{number}", f"10.96.0.{number + 1}"))
        api.put(ENDPOINT_SLICES, slice_of("s3", "10.244.1.1"))
        await eventually(lambda: bool(mode.applied))

        assert len(mode.applied) == 1
        assert len(mode.applied[0]) == 5


def measured(agent: ProxyAgent, name: str) -> float:
    """The value of `kubeproxy_sync_proxy_rules_NAME` for IPv4."""
    value = agent.metrics.registry.get_sample_value(f"kubeproxy_sync_proxy_rules_{name}", {"ip_family": "IPv4"})
    assert value is not None
    return value


async def test_an_irrelevant_change_causes_no_transaction(api: ScriptedApi, mode: ScriptedMode) -> None:
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with running(api, mode) as agent:
        api.put(SERVICES, service("s", "10.96.0.1") | {"status": {}})
        api.put(SERVICES, service("headless", "None"))
        seen = "service_changes_total"
        await eventually(lambda: measured(agent, seen) == 3 and not agent._objects.has_batch)

        assert mode.applied == []
        synced, queued = "last_timestamp_seconds", "last_queued_timestamp_seconds"
        await eventually(lambda: measured(agent, synced) >= measured(agent, queued))


async def test_a_deleted_service_is_removed(api: ScriptedApi, mode: ScriptedMode) -> None:
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with running(api, mode):
        api.delete(SERVICES, "s")
        await eventually(lambda: bool(mode.applied))

        (update,) = mode.applied[0]
        assert [change.new for change in update.changes] == [None]
        assert update.old_cluster_ips == ("10.96.0.1",)
        assert update.new_cluster_ips == ()


class ScriptedFlows:
    """The kernel's UDP flows; each was made while the backend that answers it was there."""

    def __init__(self, mode: ScriptedMode, *flows: Flow) -> None:
        self._mode = mode
        self.flows = list(flows)
        self.synced_before_removal: list[int] = []

    def close(self) -> None:
        return None

    def one_walk(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def remove(self, *query: object, is_stale: Callable[[Flow], bool]) -> int:
        gone = [flow for flow in self.flows if query[1] == "udp" and is_stale(flow)]
        if gone:
            self.synced_before_removal.append(len(self._mode.synced) + len(self._mode.applied))
        self.flows = [flow for flow in self.flows if flow not in gone]
        return len(gone)


async def test_flows_are_cleaned_after_the_rules_changed(api: ScriptedApi, mode: ScriptedMode) -> None:
    flows = [Flow(("10.96.0.1", 53), (f"10.244.1.{n}", 53), True) for n in (1, 2, 3)]
    kernel = ScriptedFlows(mode, *flows)
    udp = {"name": "dns", "port": 53, "protocol": "UDP"}

    def endpoints(*addresses: str) -> dict[str, Any]:
        return slice_of("dns", *addresses) | {"ports": [udp]}

    api.put(SERVICES, service("dns", "10.96.0.1", ports=[udp]))
    api.put(ENDPOINT_SLICES, endpoints("10.244.1.1", "10.244.1.2"))
    async with running(api, mode, ConntrackReconciler(lambda: kernel)) as agent:
        await eventually(lambda: kernel.flows == flows[:2])  # the third went while no proxy ran

        api.put(ENDPOINT_SLICES, endpoints("10.244.1.2"))
        await eventually(lambda: kernel.flows == flows[1:2])
        deleted = 'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 2.0'
        await eventually(lambda: deleted in render(agent.metrics.registry)[0].decode())

    assert kernel.synced_before_removal == [1, 2]


async def test_a_rejected_change_leads_to_a_full_sync_at_once(api: ScriptedApi, mode: ScriptedMode) -> None:
    async with running(api, mode) as agent:
        mode.fail_apply = 1
        api.put(SERVICES, service("s", "10.96.0.1"))
        await eventually(lambda: len(mode.synced) == 2)

        assert mode.synced[-1] == {"10.96.0.1:80/tcp": 0}
        await eventually(lambda: agent.health.is_alive)


async def test_progress_lists_the_services_that_the_kernel_rejects(api: ScriptedApi) -> None:
    class Choosy(ScriptedMode):
        async def sync(self, table: FrontendTable) -> int:
            if any(frontend.owner.startswith("default/bad:") for frontend in table):
                raise Refused("not that one")
            return await super().sync(table)

        async def apply(self, updates: Sequence[Update]) -> int:
            if any(c.new is not None and c.new.owner.startswith("default/bad:") for u in updates for c in u.changes):
                raise Refused("not that one")
            return await super().apply(updates)

    class Published:
        refused: frozenset[str] | None = None
        slices = 0

        def on_programmed(
            self, services: str, slices: str, nodes: KnownNodes, *, changed: bool, refused: Iterable[ObjectKey]
        ) -> None:
            self.refused, self.slices = frozenset(map(str, refused)), int(slices)

    published = Published()
    api.put(SERVICES, service("s", "10.96.0.1"))
    api.put(SERVICES, service("bad", "10.96.0.2"))
    async with running(api, Choosy(), progress=published):
        assert published.refused == {"default/bad"}
        before = published.slices
        api.put(ENDPOINT_SLICES, slice_of("bad", "10.244.1.1"))
        # Its pods would be held for the whole bound, each time, for what cannot be waited for.
        await eventually(lambda: published.slices > before)
        assert published.refused == {"default/bad"}
        api.delete(SERVICES, "bad")
        await eventually(lambda: published.refused == frozenset())


async def test_a_kernel_that_rejects_everything_is_retried(
    api: ScriptedApi, mode: ScriptedMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "LONGEST_RETRY_SECONDS", 0.01)
    mode.fail_sync = 3
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with running(api, mode) as agent:
        assert mode.synced == [{"10.96.0.1:80/tcp": 0}]
        assert measured(agent, "nftables_sync_failures_total") == 3


async def test_a_service_that_cannot_be_compiled_does_not_affect_others(
    api: ScriptedApi, mode: ScriptedMode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = compile_service

    def explode(service: Service, *rest: Any) -> Any:
        if service.metadata.name == "bad":
            raise RuntimeError("boom")
        return real(service, *rest)

    monkeypatch.setattr(agent_module, "compile_service", explode)
    api.put(SERVICES, service("bad", "10.96.0.1"))
    api.put(SERVICES, service("good", "10.96.0.2"))
    with caplog.at_level(logging.ERROR):
        async with running(api, mode):
            assert mode.synced == [{"10.96.0.2:80/tcp": 0}]
    assert "default/bad" in caplog.text


async def test_a_problem_is_reported_once(
    api: ScriptedApi, mode: ScriptedMode, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with running(api, mode):
            for port in (1, 2):
                spec = {"externalIPs": ["nonsense"], "healthCheckNodePort": port, "sessionAffinity": "ClientIP"}
                api.put(SERVICES, service("odd", "10.96.0.1", **spec))
                api.put(ENDPOINT_SLICES, slice_of("odd", f"10.244.1.{port}"))
                await eventually(lambda port=port: len(mode.applied) == port)
            await eventually(lambda: len(api.events) == 3)
    assert caplog.text.count("nonsense") == 1
    assert caplog.text.count("NotSupported: sticky") == 1
    events = {(e.involved_object.kind, e.involved_object.name, e.type, e.reason, e.message) for e in api.events}
    assert events == {
        ("Node", "node1", "Normal", "Starting", "Starting kube-proxy."),
        ("Service", "odd", "Warning", "BadAddress", "externalIPs: 'nonsense'"),
        ("Service", "odd", "Warning", "NotSupported", "sticky"),
    }


def put_node(api: ScriptedApi, name: str, *addresses: str, **spec: Any) -> None:
    reported = [{"type": "InternalIP", "address": address} for address in addresses]
    api.put(NODES, {"metadata": {"name": name}, "spec": spec, "status": {"addresses": reported}})


def changed(mode: ScriptedMode) -> tuple[list[list[str]], list[list[str]]]:
    """Return the Frontends that went and those that came, for each transaction."""
    gone = [[str(change.old.key) for update in u for change in update.changes if change.old] for u in mode.applied]
    came = [[str(change.new.key) for update in u for change in update.changes if change.new] for u in mode.applied]
    return gone, came


async def test_addresses_are_served_until_they_belong_to_a_node_the_api_server_or_pods(
    api: ScriptedApi, mode: ScriptedMode
) -> None:
    put_node(api, "node1", "10.0.0.201")
    api.put(SERVICES, service("greedy", "10.96.0.2", externalIPs=["10.0.0.202", "10.0.0.1", "10.245.2.7"]))
    api.put(SERVICES, service("local", "10.96.0.3", externalIPs=["10.0.0.201"]))
    async with running(api, mode):
        addresses = ("10.96.0.2", "10.96.0.3", "10.0.0.201", "10.0.0.202", "10.0.0.1", "10.245.2.7")
        assert set(mode.synced[0]) == {f"{address}:80/tcp" for address in addresses}

        put_node(api, "node2", "10.0.0.202")
        await eventually(lambda: len(mode.applied) == 1)
        put_node(api, "node2", "10.0.0.202", "192.0.2.2")  # nothing to do
        api.put(ENDPOINT_SLICES, slice_of("kubernetes", "10.0.0.1"))
        await eventually(lambda: len(mode.applied) == 2)
        put_node(api, "node2", "10.0.0.202", podCIDRs=["10.245.2.0/24"])
        await eventually(lambda: len(mode.applied) == 3)
        api.delete(NODES, "node2")
        await eventually(lambda: len(mode.applied) == 4)

        gone, came = changed(mode)
        assert gone == [["10.0.0.202:80/tcp"], ["10.0.0.1:80/tcp"], ["10.245.2.7:80/tcp"], []]
        assert came == [[], [], [], ["10.0.0.202:80/tcp", "10.245.2.7:80/tcp"]]
        await eventually(lambda: len(api.events) == 3)
    events = [(e.involved_object.name, e.type, e.reason) for e in api.events]
    assert events.count(("greedy", "Warning", "ReservedAddress")) == 2, "each time it is something else"


async def test_a_port_of_the_node_is_served_while_nobody_listens_there(
    api: ScriptedApi, mode: ScriptedMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_listeners, "CHECK_SECONDS", 0.01)
    listeners = {Listener("tcp", "0.0.0.0", 80)}
    put_node(api, "node1", "10.0.0.201")
    async with running(api, mode, listeners=listeners):
        api.put(SERVICES, service("local", "10.96.0.3", externalIPs=["10.0.0.201"]))
        await eventually(lambda: len(mode.applied) == 1)
        listeners.clear()
        await eventually(lambda: len(mode.applied) == 2)
        listeners.add(Listener("tcp", "10.0.0.201", 80))
        await eventually(lambda: len(mode.applied) == 3)
        await eventually(lambda: len(api.events) == 2)
    assert changed(mode) == (
        [[], [], ["10.0.0.201:80/tcp"]],
        [["10.96.0.3:80/tcp"], ["10.0.0.201:80/tcp"], []],
    )
    assert [event.reason for event in api.events] == ["Starting", "ReservedAddress"]


@pytest.mark.parametrize("created", ["2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"])
async def test_an_address_is_served_for_those_that_list_it_until_a_service_is_given_it(
    created: str, api: ScriptedApi, mode: ScriptedMode
) -> None:
    def put_owner(*given: str, **annotations: str) -> None:
        document = service("owner", "10.96.0.2", type="LoadBalancer", ports=[{"name": "http", "port": 443}])
        document["metadata"] |= {"creationTimestamp": created, "annotations": annotations}
        document["status"] = {"loadBalancer": {"ingress": [{"ip": ip} for ip in given]}}
        api.put(SERVICES, document)

    taker = service("taker", "10.96.0.3", externalIPs=["10.0.0.10"])
    taker["metadata"] |= {
        "creationTimestamp": "2026-06-01T00:00:00Z",
        "annotations": {"metallb.io/allow-shared-ip": "k"},
    }
    api.put(SERVICES, taker)
    put_owner()
    async with running(api, mode):
        put_owner("10.0.0.10")
        await eventually(lambda: len(mode.applied) == 1)
        put_owner("10.0.0.10", **{"metallb.io/allow-shared-ip": "k"})
        await eventually(lambda: len(mode.applied) == 2)
        put_owner("10.0.0.10")
        await eventually(lambda: len(mode.applied) == 3)
        api.delete(SERVICES, "owner")
        await eventually(lambda: len(mode.applied) == 4)

        gone, came = changed(mode)
        assert gone == [
            ["10.0.0.10:80/tcp"],
            [],
            ["10.0.0.10:80/tcp"],
            ["10.0.0.10:443/tcp", "10.96.0.2:443/tcp"],
        ]
        assert came == [["10.0.0.10:443/tcp"], ["10.0.0.10:80/tcp"], [], ["10.0.0.10:80/tcp"]]
        await eventually(lambda: len(api.events) == 2)
    assert [(event.involved_object.name, event.reason) for event in api.events][1:] == [("taker", "ReservedAddress")]


async def test_a_health_check_port_is_the_nodes_before_anybody_listens(
    api: ScriptedApi, mode: ScriptedMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "local_addresses", lambda cidrs: [])  # the port is not opened
    port = 32000
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port}
    api.put(SERVICES, service("edge", "10.96.0.3", externalIPs=["10.0.0.201"], ports=[{"name": "http", "port": port}]))
    put_node(api, "node1", "10.0.0.201")
    async with running(api, mode):
        assert f"10.0.0.201:{port}/tcp" in mode.synced[0]
        api.put(SERVICES, service("balanced", "10.96.0.4", **local))
        await eventually(lambda: len(mode.applied) == 1)
        api.delete(SERVICES, "balanced")
        await eventually(lambda: len(mode.applied) == 2)
    gone, came = changed(mode)
    assert gone == [[f"10.0.0.201:{port}/tcp"], ["10.96.0.4:80/tcp"]]
    assert came == [["10.96.0.4:80/tcp"], [f"10.0.0.201:{port}/tcp"]]


@pytest.mark.parametrize("cidrs", [(), ("10.96.0.0/12",)])
async def test_a_cluster_ip_is_of_one_service_whether_its_range_is_known_or_not(
    cidrs: tuple[str, ...], api: ScriptedApi, mode: ScriptedMode
) -> None:
    put_node(api, "node1", "10.0.0.201")
    if cidrs:
        api.put(SERVICE_CIDRS, {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": cidrs}})
    taker = service("taker", "10.96.0.3", externalIPs=["10.96.0.2"], ports=[{"name": "http", "port": 9999}])
    api.put(SERVICES, taker)
    async with running(api, mode):
        assert ("10.96.0.2:9999/tcp" in mode.synced[0]) == (not cidrs)
        api.put(SERVICES, service("owner", "10.96.0.2"))
        await eventually(lambda: len(mode.applied) == 1)
        gone, came = changed(mode)
        assert gone == [[] if cidrs else ["10.96.0.2:9999/tcp"]]
        assert came == [["10.96.0.2:80/tcp"]]
        await eventually(lambda: len(api.events) == 2)
    text = "in the range of cluster IPs" if cidrs else "a cluster IP of Service default/owner"
    assert f"10.96.0.2 in externalIPs, {text}" in str(api.events[1].message)


async def test_a_dry_run_reports_all_problems_and_changes_nothing(
    api: ScriptedApi, mode: ScriptedMode, caplog: pytest.LogCaptureFixture
) -> None:
    api.put(SERVICES, service("s", "10.96.0.1", ports=[{"name": "renamed", "port": 80}]))
    api.put(ENDPOINT_SLICES, slice_of("s", "10.244.1.1"))
    agent = ProxyAgent(api, mode, CONFIG, "node1")  # type: ignore[arg-type]
    assert await agent.dry_run(lambda table: " ".join(str(frontend.key) for frontend in table)) == "10.96.0.1:80/tcp"
    assert "no endpoint has a port 'renamed'/TCP" in caplog.text
    assert (mode.synced, mode.applied) == ([], [])


async def test_a_node_that_gains_a_family_is_resynced(api: ScriptedApi, mode: ScriptedMode) -> None:
    api.put(SERVICES, service("s", "10.96.0.1") | {"metadata": {"name": "s"}})
    async with running(api, mode):
        assert mode.settings.families == (4,)

        api.put(
            NODES,
            {"metadata": {"name": "node1"}, "status": {"addresses": [{"type": "InternalIP", "address": "fd00::1"}]}},
        )
        await eventually(lambda: mode.settings.families == (4, 6) and len(mode.synced) == 2)


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_missing_node_is_logged(
    api: ScriptedApi, mode: ScriptedMode, caplog: pytest.LogCaptureFixture, is_there: bool
) -> None:
    if is_there:
        api.put(NODES, {"metadata": {"name": "node1"}})
    async with running(api, mode):
        assert ("there is no Node node1" in caplog.text) is not is_there


async def test_a_deleted_node_object_keeps_the_last_known_node(api: ScriptedApi, mode: ScriptedMode) -> None:
    addresses = [{"type": "InternalIP", "address": "10.0.0.201"}]
    api.put(NODES, {"metadata": {"name": "node1"}, "status": {"addresses": addresses}})
    async with running(api, mode):
        before = mode.settings

        api.delete(NODES, "node1")
        api.put(SERVICES, service("s", "10.96.0.1") | {"metadata": {"name": "s"}})
        await eventually(lambda: len(mode.applied) == 1)

        assert (before.node_port_cidrs, mode.settings) == (("10.0.0.201/32",), before)


async def test_the_kernel_is_verified_without_changes(
    api: ScriptedApi, mode: ScriptedMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(guard_module, "SETTLE_SECONDS", 0.01)
    async with running(api, mode):
        await eventually(lambda: mode.verified > 3)

        assert mode.applied == []
        assert len(mode.synced) == 1


def test_properties_of_the_node_are_read_from_its_object() -> None:
    addresses = [{"type": "InternalIP", "address": "10.0.0.201"}, {"type": "Hostname", "address": "x"}]
    node = msgspec.convert(
        {
            "metadata": {"name": "node1", "labels": {"topology.kubernetes.io/zone": "a"}},
            "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:244:1::/64"]},
            "status": {"addresses": addresses},
        },
        Node,
    )

    facts, settings = plan_node(
        ProxyConfig(detect_local_mode="NodeCIDR", node_port_addresses=("primary",)), "node1", node, ()
    )

    assert (facts.zone, facts.families) == ("a", (4, 6))
    assert facts.cluster_cidrs == settings.cluster_cidrs == ("10.244.1.0/24", "fd00:244:1::/64")
    assert facts.addresses == ("10.0.0.201",)
    assert settings.own_pod_cidrs == ("10.244.1.0/24", "fd00:244:1::/64")
    assert settings.node_port_cidrs == ("10.0.0.201/32", "::/0"), "there is no primary one of IPv6"
    facts, settings = plan_node(CONFIG, "node1", None, ())
    assert (facts.families, settings.node_port_cidrs) == ((4,), None)


@pytest.mark.parametrize(
    ("bind_address", "reported", "primary"),
    [
        ("", ["E 192.0.2.1", "I 10.0.0.201", "I 10.1.0.201", "I FD00:A:0::201"], ("10.0.0.201", "fd00:a::201")),
        ("", ["E 2001:db8::1", "I fd00:a::201", "E 192.0.2.1"], ("fd00:a::201", "192.0.2.1")),
        ("", ["E 192.0.2.1", "H 10.0.0.9", "I nonsense", "I "], ("192.0.2.1",)),
        ("10.0.0.9", ["I fd00:a::201", "I 10.0.0.201"], ("10.0.0.9", "fd00:a::201")),
        ("", [], ()),
    ],
)
def test_a_node_has_one_primary_address_per_family(
    bind_address: str, reported: list[str], primary: tuple[str, ...]
) -> None:
    kinds = {"I": "InternalIP", "E": "ExternalIP", "H": "Hostname"}
    addresses = [{"type": kinds[text[0]], "address": text[2:]} for text in reported]
    node = msgspec.convert({"metadata": {"name": "node1"}, "status": {"addresses": addresses}}, Node)

    assert plan_node(ProxyConfig(bind_address=bind_address), "node1", node, ())[0].addresses == primary


def test_the_nodes_pod_ranges_are_canonical() -> None:
    spec = {"podCIDRs": ["10.244.1.7/24", "FD00:244:1:0::/64", "nonsense"]}
    node = msgspec.convert({"metadata": {"name": "node1"}, "spec": spec}, Node)

    settings = plan_node(ProxyConfig(detect_local_mode="NodeCIDR"), "node1", node, ())[1]

    assert settings.own_pod_cidrs == settings.cluster_cidrs == ("10.244.1.0/24", "fd00:244:1::/64")


def test_a_family_that_the_kernel_lacks_is_omitted() -> None:
    config = ProxyConfig(cluster_cidrs=("10.244.0.0/16", "fd00:244::/32"))
    facts, settings = plan_node(config, "node1", None, ("fd00:96::/112",), (4,))

    assert facts.families == settings.families == (4,)
    assert plan_node(config, "node1", None, ("fd00:96::/112",))[1].families == (4, 6)


def test_cluster_clients_are_the_nodes_own_pods_if_known() -> None:
    ranges = ("10.245.0.0/16", "10.244.0.0/16", "fd00:244::/32")
    own = Settings((4, 6), ranges, own_pod_cidrs=("10.244.1.0/24",))

    assert Settings((4, 6), ranges).internal_cidrs(4) == ("10.244.0.0/16", "10.245.0.0/16")
    assert (own.internal_cidrs(4), own.internal_cidrs(6)) == (("10.244.1.0/24",), ("fd00:244::/32",))
    assert Settings((4, 6), own_pod_cidrs=("10.244.1.0/24",)).internal_cidrs(4) == ()


@pytest.mark.parametrize(
    ("wanted", "ranges"),
    [
        ((), None),
        (("0.0.0.0/0",), None),
        (("10.0.0.0/24",), ("10.0.0.0/24", "::/0")),
        (("10.0.0.0/24", "fd00:a::/64"), ("10.0.0.0/24", "fd00:a::/64")),
        (("10.0.0.0/24", "0.0.0.0/0", "fd00:a::/64"), ("0.0.0.0/0", "fd00:a::/64")),
    ],
)
def test_node_ports_answer_on_all_addresses_of_a_family_without_ranges(
    wanted: tuple[str, ...], ranges: tuple[str, ...] | None
) -> None:
    config = ProxyConfig(cluster_cidrs=("10.244.0.0/16", "fd00:244::/32"), node_port_addresses=wanted)

    assert plan_node(config, "node1", None, ())[1].node_port_cidrs == ranges


@pytest.mark.parametrize(
    ("took", "min_sync_period", "pause"), [(0.001, 0.0, 0.0), (0.09, 0.0, 0.09), (3.0, 0.0, 0.25), (0.09, 1.0, 1.0)]
)
def test_the_pause_follows_a_long_sync(took: float, min_sync_period: float, pause: float) -> None:
    assert agent_module.pause_after(took, min_sync_period) == pause
