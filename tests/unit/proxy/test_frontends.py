"""Compiling Services: tables over type, policy, family and endpoint state, and properties for any objects."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.core import Node, NodeSpec, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.proxy.address_texts import canonical_address, canonical_cidr
from bridgehead.proxy.frontends import (
    Frontend,
    NodeFacts,
    Reason,
    ServiceFrontends,
    SourceNat,
    Verdict,
)
from bridgehead.proxy.reserved_addresses import plan_reserved
from bridgehead.proxy.service_frontends import compile_service
from tests.unit.examples import examples

NODE = NodeFacts(name="node1", zone="a", families=(4, 6), cluster_cidrs=("10.244.0.0/16", "fd00:244::/32"))
ADDRESS = {4: "10.96.0.10", 6: "fd00:96::10"}
EXTERNAL = {4: "203.0.113.7", 6: "2001:db8::7"}
BALANCER = {4: "203.0.113.8", 6: "2001:db8::8"}


def service(family: int = 4, **spec: Any) -> Service:
    status = spec.pop("status", {})
    metadata = spec.pop("metadata", {})
    port = {"name": "http", "port": 80} | spec.pop("port", {})
    base = {"clusterIP": ADDRESS[family], "clusterIPs": [ADDRESS[family]], "ports": [port]}
    return msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default"} | metadata, "spec": base | spec, "status": status}, Service
    )


def endpoint(
    address: str,
    *,
    ready: bool | None = True,
    serving: bool | None = None,
    terminating: bool | None = None,
    node: str = "node1",
    **more: Any,
) -> dict[str, Any]:
    conditions = {"ready": ready, "serving": serving, "terminating": terminating}
    return {
        "addresses": [address],
        "conditions": {name: value for name, value in conditions.items() if value is not None},
        **({"nodeName": node} if node else {}),
        **more,
    }


def slice_of(*endpoints: dict[str, Any], family: int = 4, name: str = "web-1", **more: Any) -> EndpointSlice:
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "web"},
            },
            "addressType": f"IPv{family}",
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
            "endpoints": list(endpoints),
        }
        | more,
        EndpointSlice,
    )


def by_address(compiled: ServiceFrontends) -> dict[str, Frontend]:
    return {frontend.key.address: frontend for frontend in compiled.frontends}


def hosts(frontend: Frontend) -> list[str]:
    return [backend.address.rpartition(":" if ":" in backend.address else ".")[2] for backend in frontend.backends]


# --- Endpoint states -------------------------------------------------------------------------------------

# Each state by (ready here, draining here, ready elsewhere, draining elsewhere); their addresses end in 1, 2, 3 and 4.


@dataclass(frozen=True)
class Wanted:
    cluster: str
    local: str
    local_when_empty: Verdict


def wanted_for(here: bool, draining_here: bool, there: bool, draining_there: bool) -> Wanted:
    """Kubernetes' rules in another form than the code's: the first non-empty candidate counts."""
    ready = "1" * here + "3" * there
    draining = "2" * draining_here + "4" * draining_there
    local = "1" * here or "2" * draining_here
    return Wanted(ready or draining, local, Verdict.DROP if ready + draining else Verdict.REJECT)


STATES = list(itertools.product((False, True), repeat=4))
CASES = list(
    itertools.product(("ClusterIP", "NodePort", "LoadBalancer"), ("Cluster", "Local"), ("Cluster", "Local"), (4, 6))
)


def endpoints_of(state: tuple[bool, ...], family: int) -> list[dict[str, Any]]:
    prefix = "10.244.1." if family == 4 else "fd00:244:1::"
    kinds = (
        {"ready": True},
        {"ready": False, "serving": True, "terminating": True},
        {"ready": True, "node": "node2"},
        {"ready": False, "serving": True, "terminating": True, "node": "node2"},
    )
    chosen = [endpoint(f"{prefix}{i + 1}", **kind) for i, kind in enumerate(kinds) if state[i]]  # type: ignore[arg-type]
    chosen.append(endpoint(f"{prefix}9", ready=False))  # never counts
    return chosen


@pytest.mark.parametrize(("type_", "internal", "external", "family"), CASES)
def test_every_cell_of_type_policy_family_and_state(type_: str, internal: str, external: str, family: int) -> None:
    cells = 0
    for state in STATES:
        wanted = wanted_for(*state)
        spec: dict[str, Any] = {"type": type_, "internalTrafficPolicy": internal, "externalTrafficPolicy": external}
        if type_ != "ClusterIP":
            spec["port"] = {"nodePort": 30080}
        if type_ == "LoadBalancer":
            spec["status"] = {"loadBalancer": {"ingress": [{"ip": BALANCER[family]}]}}
        found = by_address(
            compile_service(
                service(family, externalIPs=[EXTERNAL[family]], **spec),
                [slice_of(*endpoints_of(state, family), family=family)],
                NODE,
            )
        )
        any_local = "0.0.0.0" if family == 4 else "::"
        published = {EXTERNAL[family]}
        if type_ != "ClusterIP":
            published.add(any_local)
        if type_ == "LoadBalancer":
            published.add(BALANCER[family])
        assert found.keys() == published | {ADDRESS[family]}

        inner = found[ADDRESS[family]]
        assert "".join(hosts(inner)) == (wanted.local if internal == "Local" else wanted.cluster)
        assert inner.cluster_backends is None
        assert inner.source_nat is SourceNat.OUTSIDE
        if not inner.backends:
            assert inner.when_empty is (wanted.local_when_empty if internal == "Local" else Verdict.REJECT)
        for address in published:
            outer = found[address]
            assert outer.key.port == (30080 if address == any_local else 80)
            if external == "Local":
                assert "".join(hosts(outer)) == wanted.local
                assert outer.cluster_backends is not None
                assert [b.address[-1] for b in outer.cluster_backends] == list(wanted.cluster)
                assert outer.source_nat is SourceNat.HAIRPIN, "backends see the client's address"
                assert outer.when_empty is wanted.local_when_empty
            else:
                assert "".join(hosts(outer)) == wanted.cluster
                assert outer.cluster_backends is None
                assert outer.source_nat is SourceNat.ALWAYS
                assert outer.when_empty is Verdict.REJECT
        cells += 1
    assert cells == 16


def test_the_table_covers_every_cell() -> None:
    assert len(set(CASES)) == 3 * 2 * 2 * 2
    assert len(set(STATES)) == 16


# --- Readiness, topology, affinity, source NAT -----------------------------------------------------------


def test_unknown_readiness_counts_as_ready() -> None:
    compiled = compile_service(service(), [slice_of(endpoint("10.244.1.1", ready=None))], NODE)

    assert hosts(compiled.frontends[0]) == ["1"]


def test_a_serving_terminating_endpoint_is_used_only_without_ready_ones() -> None:
    draining = endpoint("10.244.1.2", ready=False, serving=True, terminating=True)
    dead = endpoint("10.244.1.3", ready=False, serving=False, terminating=True)

    assert hosts(compile_service(service(), [slice_of(draining, dead)], NODE).frontends[0]) == ["2"]
    ready = endpoint("10.244.1.1")
    assert hosts(compile_service(service(), [slice_of(ready, draining, dead)], NODE).frontends[0]) == ["1"]


@pytest.mark.parametrize(
    ("hints", "used"),
    [
        ([{"forZones": [{"name": "a"}]}, {"forZones": [{"name": "b"}]}], ["1"]),
        ([{"forZones": [{"name": "a"}]}, None], ["1", "2"]),
        ([{"forZones": [{"name": "b"}]}, {"forZones": [{"name": "c"}]}], ["1", "2"]),
        ([{"forZones": [{"name": "a"}], "forNodes": [{"name": "node2"}]},
          {"forZones": [{"name": "b"}], "forNodes": [{"name": "node1"}]}], ["2"]),
        ([{"forZones": [{"name": "a"}], "forNodes": [{"name": "node2"}]},
          {"forZones": [{"name": "b"}], "forNodes": [{"name": "node3"}]}], ["1"]),
    ],
    ids=["zone", "one without hints", "no hint for here", "node before zone", "no node hint for here"],
)  # fmt: skip
def test_hints_apply_when_all_endpoints_have_them_and_one_is_for_this_node(hints: list[Any], used: list[str]) -> None:
    endpoints = [endpoint(f"10.244.1.{i + 1}", **({"hints": hint} if hint else {})) for i, hint in enumerate(hints)]

    assert hosts(compile_service(service(), [slice_of(*endpoints)], NODE).frontends[0]) == used


def test_a_node_without_a_zone_ignores_zone_hints() -> None:
    node = msgspec.structs.replace(NODE, zone="")
    hinted = [endpoint(f"10.244.1.{i}", hints={"forZones": [{"name": "a" if i == 1 else ""}]}) for i in (1, 2)]

    assert hosts(compile_service(service(), [slice_of(*hinted)], node).frontends[0]) == ["1", "2"]


def test_affinity_has_a_timeout_and_a_default() -> None:
    assert compile_service(service(), [], NODE).frontends[0].affinity_seconds is None
    sticky = service(sessionAffinity="ClientIP")
    assert compile_service(sticky, [], NODE).frontends[0].affinity_seconds == 10800
    timed = service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 10}})
    assert compile_service(timed, [], NODE).frontends[0].affinity_seconds == 10


@pytest.mark.parametrize(
    ("facts", "nat"),
    [
        ({}, SourceNat.OUTSIDE),
        ({"cluster_cidrs": ()}, SourceNat.HAIRPIN),
        ({"cluster_cidrs": ("fd00:244::/32",)}, SourceNat.HAIRPIN),
        ({"masquerade_all": True}, SourceNat.ALWAYS),
    ],
)
def test_source_nat_of_cluster_ips_follows_local_detection(facts: dict[str, Any], nat: SourceNat) -> None:
    node = msgspec.structs.replace(NODE, **facts)

    assert compile_service(service(), [], node).frontends[0].source_nat is nat


# --- What a Service publishes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIP": "None", "clusterIPs": ["None"]},
        {"clusterIP": "", "clusterIPs": []},
        {"type": "ExternalName", "externalName": "example.com"},
        {"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "other"}}},
    ],
    ids=["headless", "no address", "ExternalName", "another proxy's"],
)
def test_services_of_other_proxies_get_no_frontend(spec: dict[str, Any]) -> None:
    compiled = compile_service(service(**spec), [slice_of(endpoint("10.244.1.1"))], NODE)

    assert compiled.frontends == ()
    assert compiled.cluster_ips == ()


def test_dual_stack_answers_on_both_families_with_their_own_backends() -> None:
    both = service(clusterIPs=[ADDRESS[4], ADDRESS[6]], type="NodePort", port={"nodePort": 30080})
    slices = [slice_of(endpoint("10.244.1.1")), slice_of(endpoint("fd00:244:1::2"), family=6, name="web-2")]

    found = by_address(compile_service(both, slices, NODE))

    assert {address: hosts(f) for address, f in found.items()} == {
        ADDRESS[4]: ["1"], ADDRESS[6]: ["2"], "0.0.0.0": ["1"], "::": ["2"],
    }  # fmt: skip


def test_a_family_that_the_node_lacks_is_omitted() -> None:
    both = service(clusterIPs=[ADDRESS[4], ADDRESS[6]])
    node = msgspec.structs.replace(NODE, families=(4,))

    compiled = compile_service(both, [slice_of(endpoint("fd00:244:1::2"), family=6)], node)

    assert set(by_address(compiled)) == {ADDRESS[4]}
    assert compiled.problems == ()


def test_load_balancer_addresses_of_mode_proxy_and_host_names_are_ignored() -> None:
    ingress = [
        {"ip": "203.0.113.8", "ipMode": "VIP"},
        {"ip": "203.0.113.9", "ipMode": "Proxy"},
        {"hostname": "lb.example"},
    ]

    compiled = compile_service(service(type="LoadBalancer", status={"loadBalancer": {"ingress": ingress}}), [], NODE)

    assert set(by_address(compiled)) == {ADDRESS[4], "203.0.113.8"}


def test_source_ranges_apply_to_load_balancer_addresses_by_family() -> None:
    spec: dict[str, Any] = {
        "type": "LoadBalancer",
        "clusterIPs": [ADDRESS[4], ADDRESS[6]],
        "externalIPs": [EXTERNAL[4]],
        "loadBalancerSourceRanges": ["192.0.2.7/24", " 192.0.2.0/25", "nonsense"],
        "status": {"loadBalancer": {"ingress": [{"ip": BALANCER[4]}, {"ip": BALANCER[6]}]}},
    }

    compiled = compile_service(service(**spec), [], NODE)

    found = by_address(compiled)
    assert found[BALANCER[4]].source_ranges == ("192.0.2.0/24",)
    assert found[BALANCER[6]].source_ranges == (), "ranges of IPv4 only admit nobody in IPv6"
    assert found[EXTERNAL[4]].source_ranges is None
    assert [p.reason for p in compiled.problems] == [Reason.BAD_SOURCE_RANGE]


@pytest.mark.parametrize(
    ("ranges", "admitted"),
    [
        (["10.0.0.201/32"], ("10.0.0.201/32", "203.0.113.8/32")),
        (["10.0.0.0/8", "fd00::/16"], ("10.0.0.0/8", "203.0.113.8/32")),
        (["192.0.2.0/24", "fd00::/16"], ("192.0.2.0/24",)),
    ],
)
def test_a_load_balancer_address_may_connect_to_itself_if_the_node_is_allowed(
    ranges: list[str], admitted: tuple[str, ...]
) -> None:
    spec: dict[str, Any] = {"type": "LoadBalancer", "loadBalancerSourceRanges": ranges}
    ingress = [{"ip": BALANCER[4]}, {"ip": BALANCER[6]}]
    node = msgspec.structs.replace(NODE, addresses=("10.0.0.201", "fd00:a::201"))

    compiled = compile_service(service(**spec, status={"loadBalancer": {"ingress": ingress}}), [], node)

    assert by_address(compiled)[BALANCER[4]].source_ranges == admitted


def test_addresses_and_ranges_are_parsed_once_per_service(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def count(text: str) -> str | None:
        parsed.append(text)
        return canonical_cidr(text)

    monkeypatch.setattr("bridgehead.proxy.service_frontends.canonical_cidr", count)
    ranges = ["192.0.2.0/24", "198.51.100.0/24"]
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 6)]
    spec: dict[str, Any] = {
        "type": "LoadBalancer",
        "loadBalancerSourceRanges": ranges,
        "clusterIPs": list(ADDRESS.values()),
    }
    status = {"loadBalancer": {"ingress": [{"ip": BALANCER[4]}]}}

    compiled = compile_service(service(**spec, ports=ports, status=status), [], NODE)

    assert parsed == ranges
    assert sum(frontend.source_ranges == tuple(ranges) for frontend in compiled.frontends) == 5


def test_ports_are_matched_by_name_and_protocol() -> None:
    two = service(
        ports=[{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    )
    ports = [{"name": "dns", "protocol": "UDP", "port": 1053}, {"name": "dns-tcp", "protocol": "TCP", "port": 2053}]

    compiled = compile_service(two, [slice_of(endpoint("10.244.1.1"), ports=ports)], NODE)

    assert [(f.key.protocol, f.backends[0].port, f.owner) for f in compiled.frontends] == [
        ("udp", 1053, "default/web:dns"),
        ("tcp", 2053, "default/web:dns-tcp"),
    ]


# --- What makes no sense ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "slice_", "reason", "backends"),
    [
        ({}, slice_of(endpoint("10.244.1.1"), {"addresses": []}), Reason.NO_ADDRESS, ["1"]),
        ({}, slice_of(endpoint("10.244.1.1"), endpoint("10.244.1.256")), Reason.BAD_ADDRESS, ["1"]),
        ({}, slice_of(endpoint("10.244.1.1"), endpoint("10.244.1.1 ; flush ruleset")), Reason.BAD_ADDRESS, ["1"]),
        ({}, slice_of(endpoint("10.244.1.1"), endpoint("0.0.0.0")), Reason.BAD_ADDRESS, ["1"]),
        ({}, slice_of(endpoint("10.244.1.1"), endpoint("fd00::1")), Reason.MIXED_FAMILY, ["1"]),
        ({}, slice_of(endpoint("10.244.1.1"), ports=[{"name": "http", "port": 0}]), Reason.BAD_PORT, []),
        ({}, slice_of(endpoint("10.244.1.1"), ports=[{"name": "other", "port": 80}]), Reason.PORT_MISMATCH, []),
        ({"port": {"port": 0}}, slice_of(endpoint("10.244.1.1")), Reason.BAD_PORT, None),
        ({"port": {"protocol": "HTTP"}}, slice_of(endpoint("10.244.1.1")), Reason.BAD_PROTOCOL, None),
        ({"externalIPs": ["x" * 4000]}, slice_of(endpoint("10.244.1.1")), Reason.BAD_ADDRESS, ["1"]),
        ({"externalIPs": [ADDRESS[4]]}, slice_of(endpoint("10.244.1.1")), Reason.DUPLICATE, ["1"]),
        ({}, slice_of(endpoint("10.244.1.1"), endpoint("10.244.1.1")), Reason.DUPLICATE, ["1"]),
    ],
)  # fmt: skip
def test_invalid_input_is_reported_and_the_rest_is_served(
    spec: dict[str, Any], slice_: EndpointSlice, reason: Reason, backends: list[str] | None
) -> None:
    compiled = compile_service(service(**spec), [slice_], NODE)

    assert reason in [problem.reason for problem in compiled.problems]
    assert all(len(str(problem)) < 300 for problem in compiled.problems)
    assert (hosts(compiled.frontends[0]) if compiled.frontends else None) == backends


def node(name: str, *addresses: tuple[str, str]) -> Node:
    reported = [{"type": kind, "address": address} for kind, address in addresses]
    return msgspec.convert({"metadata": {"name": name}, "status": {"addresses": reported}}, Node)


RESERVED = plan_reserved(
    "node1",
    ("10.0.0.201",),
    [
        node("node1", ("InternalIP", "10.0.0.201"), ("InternalIP", "FD00:10::201")),
        msgspec.structs.replace(
            node("node2", ("Hostname", "node2"), ("ExternalIP", "192.0.2.2")),
            spec=NodeSpec(pod_cidrs=("10.245.1.0/24", "fd00:99::/64", "nonsense")),
        ),
    ],
    [slice_of(endpoint("10.0.0.1"))],
    ("192.0.2.1",),
    ("10.96.0.0/12", "fd00:96::/112"),
    ("10.244.0.0/16",),
    (),
)


@pytest.mark.parametrize(
    ("address", "owner"),
    [
        ("10.0.0.1", "an address of the API server"),
        ("192.0.2.1", "an address of the API server"),
        ("127.0.0.1", "a loopback address"),
        ("127.1.2.3", "a loopback address"),
        ("::1", "a loopback address"),
        ("169.254.169.254", "a link-local address"),
        ("fe80::1", "a link-local address"),
        ("224.0.0.18", "a multicast address"),
        ("239.1.2.3", "a multicast address"),
        ("ff02::12", "a multicast address"),
        ("ff05::2", "a multicast address"),
        ("255.255.255.255", "the broadcast address"),
        ("10.244.3.4", "in the range of pods"),  # --cluster-cidr
        ("10.245.1.2", "in the range of pods"),  # of a Node
        ("fd00:99::2", "in the range of pods"),
        ("10.96.0.1", "in the range of cluster IPs"),
        ("10.111.255.255", "in the range of cluster IPs"),
        ("fd00:96::1", "in the range of cluster IPs"),
        ("10.0.0.88", None),
        ("203.0.113.7", None),
        ("10.112.0.0", None),
        ("fd00:10::88", None),
        (ADDRESS[4], None),  # the Service's own
    ],
)
@pytest.mark.parametrize("field", ["externalIPs", "status.loadBalancer.ingress"])
def test_no_service_takes_over_a_foreign_address(address: str, owner: str | None, field: str) -> None:
    """CVE-2020-8554. Addresses of a node that its Node object does not list are available to Services."""
    spec: dict[str, Any] = {"externalIPs": [EXTERNAL[4], address]}
    if field != "externalIPs":
        ingress = [{"ip": EXTERNAL[4]}, {"ip": address}]
        spec = {"type": "LoadBalancer", "status": {"loadBalancer": {"ingress": ingress}}}

    compiled = compile_service(
        service(**spec, clusterIPs=[ADDRESS[4], ADDRESS[6]]), [slice_of(endpoint("10.244.1.1"))], NODE, RESERVED
    )

    served = {frontend.key.address for frontend in compiled.frontends}
    assert (address in served) == (owner is None)
    assert {ADDRESS[4], ADDRESS[6], EXTERNAL[4]} <= served
    refused = [problem.text for problem in compiled.problems if problem.reason is Reason.RESERVED_ADDRESS]
    text = f"the Service is not published at {address} in {field}, {owner}; use addresses that nothing else has"
    assert refused == ([text] if owner else [])


def test_all_refused_addresses_of_a_service_are_one_problem() -> None:
    several = ["10.0.0.1", "10.244.1.1", "10.96.0.1", "10.96.0.2", "127.0.0.1"]

    compiled = compile_service(service(externalIPs=several), [], NODE, RESERVED)

    assert [str(problem) for problem in compiled.problems] == [
        "ReservedAddress: the Service is not published at 10.0.0.1 in externalIPs, an address of the API server; "
        "10.244.1.1 in externalIPs, in the range of pods; 10.96.0.1 in externalIPs, in the range of cluster IPs; "
        "and 2 more; use addresses that nothing else has"
    ]


def test_only_changed_slices_of_a_large_service_are_read_again() -> None:
    """Unchanged slices are not parsed again."""

    def read(number: int, ready: bool) -> EndpointSlice:
        here = endpoint(f"10.244.1.{number}", ready=ready)
        return slice_of(here, endpoint("10.244.9.9", ready=ready), endpoint("nonsense"), name=f"web-{number}")

    states = [False] * 8
    slices = [read(number, ready) for number, ready in enumerate(states)]
    for turn in (3, 5, 3, 0):
        states[turn] = not states[turn]
        slices[turn] = read(turn, states[turn])
        fresh = [read(number, ready) for number, ready in enumerate(states)]

        assert compile_service(service(), slices, NODE) == compile_service(service(), fresh[::-1], NODE)
        ready = {f"10.244.1.{number}" for number, is_ready in enumerate(states) if is_ready}
        (cluster_ip,) = compile_service(service(), slices, NODE).frontends
        assert {backend.address for backend in cluster_ip.backends} == (ready | {"10.244.9.9"} if ready else set())
    elsewhere = msgspec.structs.replace(NODE, name="node2")
    assert not any(b.is_local for f in compile_service(service(), slices, elsewhere).frontends for b in f.backends)


def test_an_address_in_two_slices_counts_once_and_as_ready() -> None:
    first = slice_of(endpoint("10.244.1.1", ready=False))
    second = slice_of(endpoint("10.244.1.1"), endpoint("10.244.1.1"), name="web-2")

    for slices in ([first, second], [second, first]):
        assert hosts(compile_service(service(), slices, NODE).frontends[0]) == ["1"]


# --- Anything --------------------------------------------------------------------------------------------

odd_addresses = st.one_of(
    st.sampled_from(["10.244.1.1", "10.244.1.2", "fd00::1", "None", "", "0.0.0.0", "224.0.0.1", "::", "1.2.3.4/5"]),
    st.text(max_size=12),
)
numbers = st.one_of(st.integers(-5, 70000), st.integers())
odd_services = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "?"]),
        "clusterIP": odd_addresses,
        "clusterIPs": st.lists(odd_addresses, max_size=3),
        "externalIPs": st.lists(odd_addresses, max_size=3),
        "internalTrafficPolicy": st.sampled_from(["Cluster", "Local", ""]),
        "externalTrafficPolicy": st.sampled_from(["Cluster", "Local", ""]),
        "sessionAffinity": st.sampled_from(["None", "ClientIP", "x"]),
        "loadBalancerSourceRanges": st.lists(odd_addresses, max_size=2),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"port": numbers, "name": st.sampled_from(["", "http", "x"]), "nodePort": numbers,
                 "protocol": st.sampled_from(["TCP", "UDP", "SCTP", "tcp", ""])},
            ),
            max_size=3,
        ),
    }
)  # fmt: skip
maybe = st.one_of(st.none(), st.booleans())
odd_slices = st.fixed_dictionaries(
    {
        "addressType": st.sampled_from(["IPv4", "IPv6", "FQDN", ""]),
        "ports": st.one_of(
            st.none(),
            st.lists(
                st.fixed_dictionaries(
                    {"name": st.sampled_from(["", "http", None]), "port": st.one_of(st.none(), numbers),
                     "protocol": st.sampled_from(["TCP", "UDP", None])},
                ),
                max_size=2,
            ),
        ),
        "endpoints": st.lists(
            st.fixed_dictionaries(
                {"addresses": st.lists(odd_addresses, max_size=2),
                 "conditions": st.fixed_dictionaries({"ready": maybe, "serving": maybe, "terminating": maybe}),
                 "nodeName": st.sampled_from([None, "node1", "node2", ""])},
            ),
            max_size=4,
        ),
    }
)  # fmt: skip


@pytest.mark.slow
@examples(150)
@given(odd_services, st.lists(odd_slices, max_size=3), st.randoms(use_true_random=False))
def test_any_input_compiles_independently_of_the_order_of_slices(
    spec: dict[str, Any], slices: list[dict[str, Any]], chance: Any
) -> None:
    the_service = msgspec.convert({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}, Service)
    the_slices = [
        msgspec.convert({"metadata": {"name": f"s{i}"}} | each, EndpointSlice) for i, each in enumerate(slices)
    ]

    compiled = compile_service(the_service, the_slices, NODE)

    chance.shuffle(the_slices)
    shuffled = [
        msgspec.structs.replace(s, endpoints=tuple(chance.sample(s.endpoints, len(s.endpoints)))) for s in the_slices
    ]
    assert compile_service(the_service, shuffled, NODE) == compiled
    keys = [frontend.key for frontend in compiled.frontends]
    assert len(set(keys)) == len(keys)
    for frontend in compiled.frontends:
        assert canonical_address(frontend.key.address) == frontend.key.address
        assert 1 <= frontend.key.port <= 65535
        for backends in (frontend.backends, frontend.cluster_backends or ()):
            assert len({(b.address, b.port) for b in backends}) == len(backends)
            for backend in backends:
                assert canonical_address(backend.address) == backend.address
                assert 1 <= backend.port <= 65535
                assert (":" in backend.address) == (frontend.key.family == 6)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (NodeFacts(name="a"), "a (no address yet), no zone, pods not distinguished from other clients"),
        (NodeFacts(name="a", knows_pods=True), "a (no address yet), no zone, pods recognized by their interfaces"),
        (
            NodeFacts(
                name="a", addresses=("10.0.0.1", "fd00::1"), zone="z", cluster_cidrs=("10.1.0.0/16", "fd01::/64")
            ),
            "a (10.0.0.1, fd00::1), zone z, pods in 10.1.0.0/16, fd01::/64",
        ),
    ],
)
def test_a_node_is_described_in_text(facts: NodeFacts, text: str) -> None:
    assert str(facts) == text
