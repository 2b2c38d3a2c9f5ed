"""Hostile and odd listings: every part has a result, and texts lose their control characters."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.expectations import Expectations, expect_node
from bridgehead.insight.facts.network_state import Destination, NetworkState, VirtualServer
from bridgehead.insight.rulesets import kube_proxy_tables
from bridgehead.insight.rulesets.chains import owner_in
from bridgehead.insight.rulesets.comparison import Kind, compare
from bridgehead.insight.rulesets.entries import Mechanism, RulesMode
from bridgehead.insight.rulesets.nft_text import duration, rule_text
from bridgehead.insight.rulesets.reading import read_rules
from bridgehead.insight.rulesets.rendering import render_mode
from bridgehead.insight.rulesets.report import entry_as_json, report_rules
from bridgehead.proxy.frontends import FrontendKey
from tests.unit.examples import examples

from .clusters import MODES, cluster, endpoint, expect, kernel_of, service, slice_
from .kube_proxy import IPTABLES, kube_proxy_cluster

WEB = service("web", clusterIPs=["10.96.0.10"], ports=[{"name": "http", "port": 80}])
SLICES = (slice_("web", endpoint("10.244.1.2"), endpoint("10.244.2.2", "node2"), port_name="http"),)
TCP_FLAGS = {"payload": {"protocol": "tcp", "field": "flags"}}

anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 1 << 40), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


def parts(document: Any) -> list[tuple[Any, Any]]:
    """Return every part of a JSON document, as its container and its key."""
    keys = range(len(document)) if isinstance(document, list) else document if isinstance(document, dict) else ()
    return [each for key in keys for each in [(document, key), *parts(document[key])]]


@examples(60)
@given(st.data())
def test_any_listing_of_nft_has_a_result(data: st.DataObject) -> None:
    expected = expect(cluster([WEB], SLICES))
    kernel = kernel_of(expected)
    listing = json.loads(kernel.nftables)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(parts(listing)))
        container[key] = data.draw(anything)
    changed = msgspec.structs.replace(kernel, nftables=json.dumps(listing).encode())
    rules = read_rules(changed, expected.table, expected.table.cluster_ips())
    assert all(line.isprintable() for line in report_rules(rules))
    json.dumps(list(map(entry_as_json, rules.entries)))


@pytest.mark.parametrize(
    "listing", [b"", b"{", b"[]", b"null", b'{"nftables": 1}', b'{"nftables": [1, {"rule": null}]}', b"\xff"]
)
def test_a_listing_that_is_none_has_no_entries(listing: bytes) -> None:
    assert read_rules(NetworkState(nftables=listing)).entries == ()


@examples(50)
@given(st.binary(max_size=200), st.binary(max_size=100))
def test_any_output_of_iptables_and_ipset_has_a_result(text: bytes, sets: bytes) -> None:
    listing = IPTABLES.encode() + text
    rules = read_rules(
        NetworkState(iptables={4: listing}, iptables_legacy={6: text}, ip_sets=b"add KUBE-LOOP-BACK " + sets)
    )
    assert all(line.isprintable() for line in report_rules(rules))


def test_a_hostile_comment_is_shown_as_text() -> None:
    expected = expect(cluster([WEB], SLICES))
    kernel = kernel_of(expected)
    listing = kernel.nftables.replace(b"default/web:http", b"\\u001b]0;x\\u0007")
    rules = read_rules(msgspec.structs.replace(kernel, nftables=listing))
    (entry,) = (one for one in rules.entries if one.container.endswith("map services"))
    assert entry.service == "?]0;x?"
    assert all(line.isprintable() for line in report_rules(rules))


def test_counters_of_rules_are_kept() -> None:
    listing = "\n".join(f"[3:180] {line}" if line.startswith("-A") else line for line in IPTABLES.splitlines())
    rules = read_rules(NetworkState(iptables={4: listing.encode()}))
    assert {(entry.packets, entry.bytes) for entry in rules.entries} == {(3, 180)}
    assert "  [3 packets, 180 bytes]" in "\n".join(report_rules(rules))


def test_without_expected_services_nothing_is_unexplained() -> None:
    assert read_rules(NetworkState(iptables={4: IPTABLES.encode()})).unexplained == ()
    rules = read_rules(NetworkState(iptables={4: IPTABLES.encode()}), ())
    assert {entry.service for entry in rules.unexplained} == {"default/web:http", "default/lb:", "default/lonely:"}


def test_rules_that_no_proxy_writes_are_unexplained() -> None:
    listing = IPTABLES.replace("-A KUBE-MARK-MASQ", "-A KUBE-SERVICES -p tcp -j LOG\n-A KUBE-MARK-MASQ", 1)
    expected = expect(kube_proxy_cluster("iptables"))
    rules = read_rules(NetworkState(iptables={4: listing.encode()}), expected.table, expected.table.cluster_ips())
    assert [entry.text for entry in rules.unexplained] == ["-A KUBE-SERVICES -p tcp -j LOG"]


@pytest.mark.parametrize(
    ("rule", "owner"),
    [
        ('-m comment --comment "default/web:http cluster IP" -j X', "default/web:http"),
        ('-m comment --comment "default/web has no endpoints" -j X', "default/web:"),
        ("-m comment --comment default/web -j X", "default/web:"),
        ('-m comment --comment "masquerade traffic for a/b: external destinations" -j X', "a/b:"),
        ('-m comment --comment "a/pod/web-1:8080 external IP" -j X', "a/pod/web-1:8080"),
        ('-m comment --comment "kubernetes service portals" -j X', ""),
        ("-j X", ""),
    ],
)
def test_a_comment_names_the_service_port(rule: str, owner: str) -> None:
    assert owner_in(rule) == owner


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("service-ULMVA6XW-ns1/svc1/tcp/p80", "ns1/svc1:p80"),
        ("external-ULMVA6XW-ns1/svc1/tcp/", "ns1/svc1:"),
        ("endpoint-5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80", "ns1/svc1:p80"),
        ("nat-output", ""),
        ("service-short", ""),
    ],
)
def test_a_chain_of_kube_proxy_names_the_service_port(name: str, owner: str) -> None:
    assert kube_proxy_tables.owner_of(name) == owner


@pytest.mark.parametrize(("seconds", "text"), [(10800, "3h"), (61, "1m1s"), (90061, "1d1h1m1s"), (0, "0")])
def test_times_are_written_as_nft_does(seconds: int, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ({"log": {"prefix": "x"}}, 'log prefix "x"'),
        ({"counter": {"packets": 1, "bytes": 2}}, "counter packets 1 bytes 2"),
        ({"reject": {"type": "icmp", "expr": "host-unreachable"}}, "reject with icmp host-unreachable"),
        ({"dnat": {"addr": "fd00::1", "port": 80}}, "dnat to [fd00::1]:80"),
        ({"masquerade": None}, "masquerade"),
        ({"jump": {"target": "a"}}, "jump a"),
        (
            {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "cali*"}},
            'iifname "cali*"',
        ),
        (
            {"map": {"op": "update", "elem": {"elem": {"val": "a", "timeout": 60}}, "data": "b", "map": "@m"}},
            "update @m { a timeout 1m : b }",
        ),
        ({"strange": {"x": [1]}}, '{"strange":{"x":[1]}}'),
        ({"match": 5}, '{"match":5}'),
        # One rule, from the JSON of nft 1.0 and 1.1, whose texts differ, too.
        (
            {"match": {"op": "==", "left": {"&": [TCP_FLAGS, ["rst", "ack"]]}, "right": "rst"}},
            "tcp flags rst / rst,ack",
        ),
        (
            {"match": {"op": "==", "left": {"&": [TCP_FLAGS, {"|": ["rst", "ack"]}]}, "right": "rst"}},
            "tcp flags & (rst | ack) == rst",
        ),
    ],
)
def test_statements_are_written_as_nft_does(statement: dict[str, Any], text: str) -> None:
    assert rule_text({"expr": [statement]}) == text


def test_the_lines_of_a_destination_are_those_that_its_connections_pass() -> None:
    expected = expect(cluster([WEB, service("other", clusterIPs=["10.96.0.11"])], SLICES, mode="iptables"))
    rules = read_rules(kernel_of(expected), expected.table, expected.table.cluster_ips())
    found = rules.of(FrontendKey("10.96.0.10", "tcp", 80))
    assert {entry.service for entry in found} == {"default/web:http"}
    assert {entry.backend for entry in found} == {"", "10.244.1.2:8080", "10.244.2.2:8080"}
    assert rules.of(FrontendKey("10.96.0.99", "tcp", 80)) == ()


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_that_is_not_in_use_is_rendered(mode: str) -> None:
    state = cluster([WEB, service("other", clusterIPs=["10.96.0.11"])], SLICES)
    rendered = render_mode(expect_node(state, "node1", mode=mode), "default/web")
    text = "".join(one.text for one in rendered)
    assert "10.96.0.10" in text
    assert "10.96.0.11" not in text
    if mode == "ipvs":
        assert [one.heading for one in rendered] == ["ipvsadm -Ln would print", "ip addr show kube-ipvs0 would print"]
        assert rendered[0].text.splitlines()[3:] == [
            "TCP  10.96.0.10:80 rr",
            "  -> 10.244.1.2:8080              Masq    1      0          0",
            "  -> 10.244.2.2:8080              Masq    1      0          0",
        ]
        assert "    inet 10.96.0.10/32 scope global kube-ipvs0\n" in rendered[1].text


def test_listeners_of_mode_userspace_have_their_service() -> None:
    expected = expect(cluster([WEB], SLICES, mode="userspace"))
    rules = read_rules(kernel_of(expected), expected.table, expected.table.cluster_ips())
    (listener,) = (entry for entry in rules.entries if entry.mechanism is Mechanism.LISTENER)
    assert (listener.service, listener.frontend) == ("default/web:http", FrontendKey("10.96.0.10", "tcp", 80))
    assert rules.mode is RulesMode.USERSPACE


def test_tables_of_a_proxy_that_publishes_nothing_are_compared() -> None:
    kernel = kernel_of(expect(cluster([WEB], SLICES)))
    unknown = expect(cluster([WEB], SLICES, is_bridgehead=False))
    assert unknown.mode == "nftables"
    assert compare(unknown, read_rules(kernel, unknown.table, unknown.table.cluster_ips())) == []


def test_rules_of_another_mode_are_a_difference() -> None:
    expected = expect(cluster([WEB], SLICES))
    kernel = kernel_of(expected)
    both = msgspec.structs.replace(kernel, iptables={4: IPTABLES.encode()})
    found = compare(expected, read_rules(both, expected.table, expected.table.cluster_ips()))
    assert [(one.kind, one.text) for one in found] == [
        (Kind.OTHER_MODE, "There are rules of mode iptables; the mode in use is nftables.")
    ]


def test_a_node_port_of_ipvs_has_the_backends_that_all_its_virtual_servers_have() -> None:
    def server(address: str, *backends: str) -> VirtualServer:
        destinations = tuple(Destination(address=one, port=80, weight=1, forwarding="Masq") for one in backends)
        return VirtualServer(protocol="tcp", address=address, port=30080, scheduler="rr", destinations=destinations)

    servers = server("10.0.0.201", "10.244.1.2", "10.244.1.3"), server("10.1.0.201", "10.244.1.3")
    rules = read_rules(NetworkState(virtual_servers=servers, ip_sets=b"add KUBE-NODE-PORT-TCP 30080"))
    found = rules.frontends[RulesMode.IPVS]
    assert [(key, one.backends) for key, one in found.items()] == [
        (FrontendKey("0.0.0.0", "tcp", 30080), (("10.244.1.3", 80),))
    ]


def ipvs_kernel(**persistent: int | None) -> tuple[Expectations, NetworkState]:
    sticky = service("web", clusterIPs=["10.96.0.10"], sessionAffinity="ClientIP")
    expected = expect(cluster([sticky], [slice_("web", endpoint("10.244.1.2"))], mode="ipvs"))
    kernel = kernel_of(expected)
    servers = tuple(msgspec.structs.replace(one, **persistent) for one in kernel.virtual_servers)
    return expected, msgspec.structs.replace(kernel, virtual_servers=servers)


def kinds(expected: Expectations, kernel: NetworkState) -> list[tuple[Kind, str]]:
    found = compare(expected, read_rules(kernel, expected.table, expected.table.cluster_ips()))
    return [(one.kind, one.service) for one in found]


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        (10800, []),
        (0, []),  # unknown
        (1800, [(Kind.VIRTUAL_SERVER, "default/web:")]),
        (None, [(Kind.VIRTUAL_SERVER, "default/web:")]),
    ],
)
def test_persistence_of_another_time_is_a_difference(seconds: int | None, found: list[tuple[Kind, str]]) -> None:
    expected, kernel = ipvs_kernel(persistent_seconds=seconds)
    assert kinds(expected, kernel) == found


def test_virtual_servers_of_other_programs_are_left_out() -> None:
    expected, kernel = ipvs_kernel()
    other = VirtualServer(protocol="tcp", address="192.0.2.1", port=80, scheduler="wrr")
    marked = VirtualServer(mark=0x77, scheduler="wrr")
    kernel = msgspec.structs.replace(kernel, virtual_servers=(*kernel.virtual_servers, other, marked))
    rules = read_rules(kernel, expected.table, expected.table.cluster_ips())
    assert (kinds(expected, kernel), rules.unexplained) == ([], ())
    assert not any("192.0.2.1" in entry.text or "FWM" in entry.text for entry in rules.entries)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("KUBE-CLUSTER-IP", "10.96.0.10,icmp:8/0"),
        ("KUBE-CLUSTER-IP", "10.96.0.10,tcp:x"),
        ("KUBE-CLUSTER-IP", "x" * 70_000),
        ("KUBE-CLUSTER-IP", "80"),
        ("KUBE-CLUSTER-IP", "\x1b[31m"),
        ("KUBE-IPVS-INSIDE", "10.96.0.10,tcp:80 skbmark zz/ff"),
        ("KUBE-NODE-PORT-TCP", "10.96.0.10"),
        ("KUBE-NODE-PORT-TCP", "9" * 5000),
        ("KUBE-IPVS-IPS", "10.96.0.10,tcp:80"),
    ],
)
def test_elements_that_no_proxy_writes_are_shown_and_unexplained(name: str, text: str) -> None:
    expected, kernel = ipvs_kernel()
    kernel = msgspec.structs.replace(kernel, ip_sets=kernel.ip_sets + f"\nadd {name} {text}".encode())
    rules = read_rules(kernel, expected.table, expected.table.cluster_ips())
    assert kinds(expected, kernel) == []
    (entry,) = rules.unexplained
    assert entry.text.isprintable()
    assert len(entry.text) < 10_000


def test_addresses_of_kube_ipvs0_are_compared_if_they_were_read() -> None:
    expected, kernel = ipvs_kernel()
    *others, dummy = kernel.interfaces
    without = msgspec.structs.replace(kernel, interfaces=tuple(others))
    assert kinds(expected, without) == [(Kind.ADDRESS, "default/web:")]
    foreign = msgspec.structs.replace(dummy, addresses=(*dummy.addresses, "192.0.2.9/32"))
    assert kinds(expected, msgspec.structs.replace(kernel, interfaces=(*others, foreign))) == [(Kind.ADDRESS, "")]
    assert kinds(expected, msgspec.structs.replace(kernel, interfaces=())) == []
