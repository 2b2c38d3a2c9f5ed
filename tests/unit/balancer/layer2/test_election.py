"""Election of addresses: one at a time, spread, with minimal movement."""

from __future__ import annotations

import hashlib
import ipaddress
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.compiled_configuration import Layer2Advertisement, NodeSelection, Pool, VrrpAdvertisement
from bridgehead.balancer.layer2.election import Election
from bridgehead.balancer.ranges import IpAddress, parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import parse_label_selector

NODES = ("node1", "node2", "node3", "node4")
POOL = Pool("pool", "metallb", (parse_range("10.0.0.0/16"),), layer2=(Layer2Advertisement("all"),))


def view(nodes: Iterable[NodeView] = (), members: Iterable[str] = NODES) -> ClusterView:
    found = {name: NodeView(name, {"kubernetes.io/hostname": name}) for name in NODES}
    found |= {node.name: node for node in nodes}
    return ClusterView("node1", nodes=found, members=frozenset(members))


def publication(number: int, **fields: object) -> Publication:
    defaults: dict[str, object] = {
        "key": ObjectKey("default", f"web{number:04}"),
        "uid": str(number),
        "labels": {},
        "addresses": ((address(number), POOL),),
        "is_local": False,
        "endpoint_nodes": frozenset(NODES),
        "has_endpoints": True,
    }
    return Publication(**(defaults | fields))  # type: ignore[arg-type]


def address(number: int) -> IpAddress:
    return ipaddress.ip_address("10.0.0.0") + number


def decide(cluster: ClusterView, *publications: Publication, **options: bool) -> list[str]:
    """Return who holds the addresses of the first Service."""
    holders = Election(**options)
    by_key = {p.key: p for p in publications}
    holders.update(cluster, by_key, by_key)
    found = [holders.get(a) for a, _ in publications[0].addresses]
    return [holder.node if holder else "" for holder in found]


def selection(text: str) -> NodeSelection:
    return NodeSelection((parse_label_selector(text),))


def test_the_holder_is_the_one_that_metallb_chooses():
    expected = min(NODES, key=lambda node: hashlib.sha256(f"{node}#10.0.0.10".encode()).hexdigest())
    assert decide(view(), publication(10)) == [expected]


def test_both_families_of_a_service_are_held_by_the_same_node():
    pool6 = replace(POOL, ranges=(parse_range("fd00::/64"),))
    both = [((address(n), POOL), (ipaddress.ip_address("fd00::") + n, pool6)) for n in range(20)]
    for number, addresses in enumerate(both):
        assert len(set(decide(view(), publication(number, addresses=addresses)))) == 1


@pytest.mark.parametrize(
    ("nodes", "fields", "expected"),
    [
        ([], {"has_endpoints": False}, {""}),
        ([], {"is_local": True, "endpoint_nodes": frozenset(["node2", "node3"])}, {"node2", "node3"}),
        ([], {"is_local": True, "endpoint_nodes": frozenset()}, {""}),
        ([NodeView("node1", {}, is_excluded=True)], {}, {"node2", "node3", "node4"}),
        ([NodeView("node1", {}, is_ending=True)], {}, {"node2", "node3", "node4"}),
        (
            [NodeView("node1", {}, is_ending=True)],
            {"is_local": True, "endpoint_nodes": frozenset(["node1"])},
            {"node1"},
        ),
    ],
    ids=["no endpoints", "local", "local without endpoints", "excluded", "leaving", "only a leaving one"],
)
def test_candidates(nodes, fields, expected):
    found = {decide(view(nodes), publication(number, **fields))[0] for number in range(40)}
    assert found == expected


def test_advertisements_select_nodes_services_and_interfaces():
    pool = replace(
        POOL,
        layer2=(
            Layer2Advertisement("a", selection("kubernetes.io/hostname=node2"), ("eth1",)),
            Layer2Advertisement(
                "b", selection("kubernetes.io/hostname=node3"), service_selectors=(parse_label_selector("tier=web"),)
            ),
        ),
    )
    plain = publication(1, addresses=((address(1), pool),))
    assert decide(view(), plain) == ["node2"]
    assert {decide(view(), publication(n, addresses=((address(n), pool),), labels={"tier": "web"}))[0]
            for n in range(20)} == {"node2", "node3"}  # fmt: skip
    holders = Election()
    holders.update(view(), {plain.key: plain}, [plain.key])
    holder = holders.get(address(1))
    assert holder is not None
    assert (holder.interfaces, holder.reason) == ({"eth1"}, "the only node that may announce it")


def test_an_advertisement_without_interfaces_means_all():
    pool = replace(POOL, layer2=(Layer2Advertisement("a", interfaces=("eth1",)), Layer2Advertisement("b")))
    only = publication(1, addresses=((address(1), pool),))
    holders = Election()
    holders.update(view(), {only.key: only}, [only.key])
    holder = holders.get(address(1))
    assert holder is not None
    assert holder.interfaces == frozenset()


def test_the_highest_sum_of_preferences_wins():
    prefers = tuple(
        (weight, parse_label_selector(text))
        for weight, text in (
            (10, "kubernetes.io/hostname in (node1,node2)"),
            (5, "kubernetes.io/hostname=node2"),
            (12, "kubernetes.io/hostname=node3"),
        )
    )
    pool = replace(POOL, layer2=(Layer2Advertisement("a", preferences=prefers),))
    services = [publication(n, addresses=((address(n), pool),)) for n in range(20)]
    assert {decide(view(), service)[0] for service in services} == {"node2"}
    alive = ("node1", "node3", "node4")
    assert {decide(view(members=alive), service)[0] for service in services} == {"node3"}


def test_preferences_count_for_nodes_that_their_advertisement_selects():
    some, other = "kubernetes.io/hostname in (node1,node2)", "kubernetes.io/hostname in (node3,node4)"
    prefers = ((100, parse_label_selector("kubernetes.io/hostname=node3")),)
    pool = replace(
        POOL,
        layer2=(
            Layer2Advertisement("a", selection(some), preferences=prefers),
            Layer2Advertisement("b", selection(other)),
            Layer2Advertisement("c", selection(other), preferences=((1, parse_label_selector("")),)),
        ),
    )
    services = [publication(n, addresses=((address(n), pool),)) for n in range(40)]
    assert {decide(view(), service)[0] for service in services} == {"node3", "node4"}


def test_addresses_without_an_advertisement_are_held_by_nobody():
    assert decide(view(), publication(1, addresses=((address(1), replace(POOL, layer2=())),))) == [""]


def test_layer_2_serves_vrrp_addresses_if_nothing_else_does():
    pool = replace(POOL, layer2=(), vrrp=(VrrpAdvertisement("eip", "eth0"),))
    service = publication(1, addresses=((address(1), pool),))
    assert decide(view(), service) == [""]
    assert decide(view(), service, serves_vrrp=True) != [""]


def test_services_that_share_an_address_are_announced_by_one_node_for_all():
    first = publication(1, addresses=((address(9), POOL),))
    second = publication(2, addresses=((address(9), POOL),), is_local=True, endpoint_nodes=frozenset(["node3"]))
    assert decide(view(), first, second) == ["node3"]
    gone = replace(second, has_endpoints=False)
    assert decide(view(), first, gone) == decide(view(), first)


def test_addresses_are_spread_and_a_dead_node_moves_only_its_own():
    services = {p.key: p for p in (publication(number) for number in range(1000))}
    holders = Election()
    assert len(holders.update(view(), services, services)) == 1000
    before = {address(n): holders.get(address(n)) for n in range(1000)}
    count = Counter(holder.node for holder in before.values() if holder)
    assert all(150 < number < 350 for number in count.values())

    moved = holders.update(view(members=NODES[:3]), services, ())
    assert moved == {a for a, holder in before.items() if holder and holder.node == "node4"}
    # A node that comes back takes exactly what it had.
    assert holders.update(view(), services, ()) == moved
    assert {address(n): holders.get(address(n)) for n in range(1000)} == before


def test_only_what_changed_is_decided_again():
    services = {p.key: p for p in (publication(number) for number in range(10))}
    holders = Election()
    cluster = view()
    holders.update(cluster, services, services)
    gone = services.pop(ObjectKey("default", "web0003"))
    assert holders.update(cluster, services, [gone.key]) == {address(3)}
    assert holders.get(address(3)) is None
    assert not holders.services(address(3))
    assert holders.update(cluster, services, services) == set()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["members", "leave", "service", "delete"]),
        st.integers(0, 7),
        st.frozensets(st.sampled_from(NODES)),
    ),
    max_size=15,
)


@given(STEPS)
def test_the_answer_does_not_depend_on_the_history(steps):
    """A speaker that has just started agrees with one that has followed every change."""
    cluster, services = (
        view(),
        {p.key: p for p in (publication(n // 2 * 2, key=ObjectKey("d", f"s{n}")) for n in range(8))},
    )
    holders = Election()
    holders.update(cluster, services, services)
    for what, number, nodes in steps:
        changed = []
        key = ObjectKey("d", f"s{number}")
        match what:
            case "members":
                cluster = replace(cluster, members=nodes)
            case "leave":
                cluster = replace(view([NodeView(name, {}, is_ending=True) for name in nodes]), members=cluster.members)
            case "service":
                changed = [key]
                services[key] = publication(number // 2 * 2, key=key, is_local=bool(number % 2), endpoint_nodes=nodes)
            case "delete":
                changed = [key]
                services.pop(key, None)
        holders.update(cluster, services, changed)
        fresh = Election()
        fresh.update(cluster, services, services)
        # The reason is that of the moment of the decision.
        found, expected = ([decided.get(address(n)) for n in range(8)] for decided in (holders, fresh))
        assert [holder and holder[:3] for holder in found] == [holder and holder[:3] for holder in expected]


def test_the_previous_node_of_an_address_is_known():
    """The node that forwards the connections that are open while the address moves."""
    holders, one = Election(), publication(10)
    holders.update(view(), {one.key: one}, [one.key])
    first = holders.get(address(10))
    assert first is not None
    others = [name for name in NODES if name != first.node]
    # A speaker that has just begun: the node that holds the address while this one does not take part.
    this = replace(view(), this_node=first.node)
    holders.update(this, {one.key: one}, ())
    expected = min(others, key=lambda node: hashlib.sha256(f"{node}#10.0.0.10".encode()).hexdigest())
    assert holders.previous_node(address(10)) == expected
    holders.update(view([NodeView(first.node, {}, is_ending=True)]), {one.key: one}, ())
    assert holders.previous_node(address(10)) == first.node
    second = holders.get(address(10))
    assert second is not None
    holders.update(view(), {one.key: one}, ())
    assert holders.get(address(10)) == first
    assert holders.previous_node(address(10)) == second.node
    # A node that is alone has nobody whose connections it could pass on.
    alone = Election()
    alone.update(replace(view(members=["node1"])), {one.key: one}, [one.key])
    assert alone.previous_node(address(10)) == ""


def test_a_node_whose_endpoints_all_terminate_gives_the_address_up():
    fields = {"is_local": True, "endpoint_nodes": frozenset(["node2", "node3"])}
    assert decide(view(), publication(10, **fields, ready_nodes=frozenset(["node3"]))) == ["node3"]
    assert decide(view(), publication(10, **fields, ready_nodes=frozenset())) != [""]
    excluded = view([NodeView("node3", {}, is_excluded=True)])
    assert decide(excluded, publication(10, **fields, ready_nodes=frozenset(["node3"]))) == ["node2"]
