"""The routes that a node announces to its peers."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.bgp.announced_routes import Route, RoutePlan
from bridgehead.balancer.compiled_configuration import BgpAdvertisement, Configuration, NodeSelection, Peer, Pool
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import parse_label_selector

ROUTER1 = Peer("router1", 64512, 64513, ipaddress.ip_address("10.0.0.1"))
ROUTER2 = Peer("router2", 64512, 64513, ipaddress.ip_address("10.0.0.2"))
RANGES = (parse_range("10.1.0.0/16"), parse_range("fd00:b::/64"))


def pool(*advertisements: BgpAdvertisement) -> Pool:
    return Pool("pool", "metallb", RANGES, bgp=advertisements)


def service(name: str, *addresses: str, of: Pool, **fields: Any) -> Publication:
    pairs = tuple((ipaddress.ip_address(address), of) for address in addresses)
    base = Publication(ObjectKey("default", name), name, {"app": name}, pairs, False, frozenset(), True)
    return replace(base, **fields)


def view(*peers: Peer, node: str = "node1", **nodes: NodeView) -> ClusterView:
    default = {"node1": NodeView("node1", {"rack": "a"}), "node2": NodeView("node2", {"rack": "b"})}
    given_peers = {peer.name: peer for peer in peers or (ROUTER1, ROUTER2)}
    return ClusterView(node, Configuration(peers=given_peers), default | nodes)


def planned(seen: ClusterView, *services: Publication) -> dict[str, dict[str, Route]]:
    plan = RoutePlan()
    plan.update(seen, {found.key: found for found in services}, [found.key for found in services])
    return {
        name: {str(prefix): route for prefix, route in plan.routes(name).items()} for name in seen.configuration.peers
    }


ALL = BgpAdvertisement("all")


def test_each_address_is_a_host_route_to_every_peer():
    found = planned(view(), service("web", "10.1.0.1", "fd00:b::1", of=pool(ALL)))
    assert found["router1"].keys() == {"10.1.0.1/32", "fd00:b::1/128"}
    assert found["router2"] == found["router1"]


def test_an_advertisement_may_name_peers_and_services():
    one = BgpAdvertisement("one", peers=("router2",), service_selectors=(parse_label_selector("app=web"),))
    found = planned(view(), service("web", "10.1.0.1", of=pool(one)), service("db", "10.1.0.2", of=pool(one)))
    assert found["router1"] == {}
    assert found["router2"].keys() == {"10.1.0.1/32"}


def test_a_peer_or_an_advertisement_of_other_nodes_is_none_of_this_node():
    rack_b = NodeSelection((parse_label_selector("rack=b"),))
    web = service("web", "10.1.0.1", of=pool(ALL))
    assert planned(view(replace(ROUTER1, nodes=rack_b)), web) == {"router1": {}}
    assert planned(view(replace(ROUTER1, nodes=rack_b), node="node2"), web)["router1"]
    only_b = service("web", "10.1.0.1", of=pool(replace(ALL, nodes=rack_b)))
    assert planned(view(ROUTER1), only_b) == {"router1": {}}
    assert planned(view(ROUTER1, node="node3"), web) == {"router1": {}}  # its Node is not known yet


def test_nodes_without_endpoints_announce_no_local_service():
    local = service("web", "10.1.0.1", of=pool(ALL), is_local=True, endpoint_nodes=frozenset({"node2"}))
    assert planned(view(ROUTER1), local) == {"router1": {}}
    assert planned(view(ROUTER1, node="node2"), local)["router1"]
    assert planned(view(ROUTER1), replace(local, is_local=False))["router1"]
    assert planned(view(ROUTER1), replace(local, is_local=False, has_endpoints=False)) == {"router1": {}}


def test_an_excluded_or_a_leaving_node_announces_nothing():
    web = service("web", "10.1.0.1", of=pool(ALL))
    assert planned(view(ROUTER1, node1=NodeView("node1", {}, is_excluded=True)), web) == {"router1": {}}
    assert planned(view(ROUTER1, node1=NodeView("node1", {}, is_ending=True)), web) == {"router1": {}}


def test_peers_with_graceful_restart_keep_the_routes_of_a_speaker_that_ends():
    web = service("web", "10.1.0.1", of=pool(ALL))
    graceful = replace(ROUTER2, graceful_restart=True)
    ending = NodeView("node1", {}, is_ending=True)
    plan, seen = RoutePlan(), view(ROUTER1, graceful)
    plan.update(seen, {web.key: web}, [web.key])
    change = plan.update(view(ROUTER1, graceful, node1=ending), {web.key: web}, [])
    assert plan.routes("router1") == {}
    assert plan.routes("router2").keys() == {ipaddress.ip_network("10.1.0.1/32")}
    assert change.services == {web.key}
    cordoned = replace(ending, is_cordoned=True)
    assert planned(view(graceful, node1=cordoned), web) == {"router2": {}}


def test_an_aggregate_stays_until_its_last_address_goes():
    network = pool(BgpAdvertisement("network", aggregation_length=24, aggregation_length_v6=64))
    one, two = service("one", "10.1.0.1", "fd00:b::1", of=network), service("two", "10.1.0.2", of=network)
    plan, seen = RoutePlan(), view(ROUTER1)
    prefix = ipaddress.ip_network("10.1.0.0/24")
    plan.update(seen, {one.key: one, two.key: two}, [one.key, two.key])
    assert plan.routes("router1").keys() == {prefix, ipaddress.ip_network("fd00:b::/64")}
    plan.update(seen, {two.key: two}, [one.key])
    assert plan.routes("router1").keys() == {prefix}
    change = plan.update(seen, {}, [two.key])
    assert change == ({"router1": {prefix}}, {two.key})
    assert plan.routes("router1") == {}
    assert plan.route("router1", prefix) is None
    assert plan.services() == set()


def test_advertisements_of_one_prefix_are_one_route():
    both = pool(
        BgpAdvertisement("a", communities=frozenset({(1, 2)}), local_preference=100),
        BgpAdvertisement("b", communities=frozenset({(1, 2, 3)}), local_preference=100),
    )
    web = service("web", "10.1.0.1", of=both)
    route = planned(view(ROUTER1), web)["router1"]["10.1.0.1/32"]
    assert (route.local_preference, route.communities) == (100, {(1, 2), (1, 2, 3)})
    # Services that share the address share its communities.
    other = service("other", "10.1.0.1", of=pool(BgpAdvertisement("c", communities=frozenset({(9, 9)}))))
    route = planned(view(ROUTER1), web, other)["router1"]["10.1.0.1/32"]
    assert route.communities == {(1, 2), (1, 2, 3), (9, 9)}


def test_what_is_announced_is_known_by_service():
    plan, web = RoutePlan(), service("web", "10.1.0.1", "10.1.0.2", of=pool(ALL))
    plan.update(view(), {web.key: web}, [web.key])
    peers = frozenset({"router1", "router2"})
    assert plan.announced(web.key) == {ipaddress.ip_address(f"10.1.0.{last}"): peers for last in (1, 2)}


def test_only_changed_services_are_looked_at():
    plan, seen = RoutePlan(), view(ROUTER1)
    web, db = service("web", "10.1.0.1", of=pool(ALL)), service("db", "10.1.0.2", of=pool(ALL))
    plan.update(seen, {web.key: web, db.key: db}, [])  # the first update: all
    assert len(plan.routes("router1")) == 2
    assert plan.update(seen, {}, [web.key]).services == {web.key}  # the other went unnoticed
    members = replace(seen, members=frozenset({"node2"}))
    assert plan.update(members, {db.key: db}, []) == ({}, set())
    # Another configuration concerns all.
    other = replace(seen, configuration=Configuration(peers={"router2": ROUTER2}))
    change = plan.update(other, {db.key: db}, [])
    assert change.prefixes.keys() == {"router1", "router2"}


PUBLICATIONS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.booleans(),
        st.sets(st.integers(1, 4), max_size=3),
        st.integers(29, 32),
        st.booleans(),
    ),
    max_size=12,
)


@given(PUBLICATIONS)
def test_updates_one_by_one_lead_to_the_plan_of_the_whole(steps):
    seen, plan, services = view(), RoutePlan(), {}
    for name, is_there, lasts, length, has_endpoints in steps:
        advertised = pool(BgpAdvertisement("x", aggregation_length=length))
        found = service(name, *(f"10.1.0.{n}" for n in lasts), of=advertised, has_endpoints=has_endpoints)
        services.pop(found.key, None)
        if is_there:
            services[found.key] = found
        before = {peer: plan.routes(peer) for peer in ("router1", "router2")}
        change = plan.update(seen, services, [found.key])
        for peer in ("router1", "router2"):
            after = plan.routes(peer)
            differing = {prefix for prefix in before[peer] | after if before[peer].get(prefix) != after.get(prefix)}
            assert differing <= change.prefixes.get(peer, set())
    whole = RoutePlan()
    whole.update(seen, services, list(services))
    assert all(plan.routes(peer) == whole.routes(peer) for peer in ("router1", "router2"))
