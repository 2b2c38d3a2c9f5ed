"""Groups of VRRP addresses, their virtual router ids and priorities, and keepalived's text."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.compiled_configuration import Configuration, NodeSelection, Pool, VrrpAdvertisement
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.balancer.vrrp.address_groups import Group, GroupKey, GroupPlan, assign_router_ids, by_rank, priority_of
from bridgehead.balancer.vrrp.keepalived import (
    Instance,
    identity_address,
    is_identity,
    parse_notification,
    render_configuration,
)
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import NOTHING, parse_label_selector

RACK_A = NodeSelection((parse_label_selector("rack=a,disk in (ssd,nvme)"), NOTHING))
NODES = {
    "node1": NodeView("node1", {"rack": "a", "disk": "ssd"}),
    "node2": NodeView("node2", {"rack": "a", "disk": "nvme"}),
    "node3": NodeView("node3", {"rack": "b"}),
}


ALL_NODES = NodeSelection()


def pool(interface: str = "eth0", nodes: NodeSelection = ALL_NODES, name: str = "eip") -> Pool:
    ranges = (parse_range("10.1.0.0/24"), parse_range("fd00:b::/64"))
    return Pool(name, "openelb", ranges, vrrp=(VrrpAdvertisement(name, interface, nodes),))


def service(name: str, *addresses: str, of: Pool | None = None, **fields: Any) -> Publication:
    pairs = tuple((ipaddress.ip_address(address), of or pool()) for address in addresses)
    base = Publication(ObjectKey("default", name), name, {}, pairs, False, frozenset(), True)
    return replace(base, **fields)


def view(node: str = "node1", **nodes: NodeView) -> ClusterView:
    return ClusterView(node, Configuration(), NODES | nodes, frozenset(NODES))


def groups(seen: ClusterView, *services: Publication) -> dict[str, Group]:
    plan = GroupPlan()
    plan.update(seen, {found.key: found for found in services}, [found.key for found in services])
    return plan.groups


def texts(found: dict[str, Group]) -> list[tuple[str, list[str]]]:
    return sorted((group.key.interface, [str(address) for address in group.addresses]) for group in found.values())


def test_addresses_of_one_interface_are_one_group_in_both_families():
    found = groups(view(), service("a", "10.1.0.2", "fd00:b::1"), service("b", "10.1.0.1"))
    assert texts(found) == [("eth0", ["10.1.0.1", "10.1.0.2", "fd00:b::1"])]
    other = service("c", "10.1.0.9", of=pool("can_reach:10.0.0.1"))
    assert len(groups(view(), service("a", "10.1.0.2"), other)) == 2


def test_only_selected_nodes_are_in_a_group_and_all_agree_on_its_id():
    selected = service("a", "10.1.0.1", of=pool(nodes=RACK_A))
    common = service("b", "10.1.0.2")
    by_node = {node: groups(view(node), selected, common) for node in NODES}
    assert {node: len(found) for node, found in by_node.items()} == {"node1": 2, "node2": 2, "node3": 1}
    ids = {node: {name: group.router_id for name, group in found.items()} for node, found in by_node.items()}
    assert ids["node1"] == ids["node2"]
    assert ids["node3"].items() <= ids["node1"].items()


def test_a_node_that_comes_or_is_excluded_changes_no_group():
    web = service("a", "10.1.0.1")
    before = groups(view(), web)
    after = groups(view(node3=NodeView("node3", {}, is_excluded=True), node4=NodeView("node4", {})), web)
    assert before.keys() == after.keys()
    assert groups(view("node3", node3=NodeView("node3", {}, is_excluded=True)), web) == {}


def test_local_services_are_in_groups_of_their_nodes():
    local: dict[str, Any] = {"is_local": True, "endpoint_nodes": frozenset({"node1", "node3"})}
    found = groups(
        view(), service("a", "10.1.0.1", **local), service("b", "10.1.0.2", **local), service("c", "10.1.0.3")
    )
    assert texts(found) == [("eth0", ["10.1.0.1", "10.1.0.2"]), ("eth0", ["10.1.0.3"])]
    assert texts(groups(view("node2"), service("a", "10.1.0.1", **local))) == []
    assert groups(view(), service("a", "10.1.0.1", is_local=True)) == {}


def test_without_endpoints_there_is_no_group():
    assert groups(view(), service("a", "10.1.0.1", has_endpoints=False)) == {}


def test_a_shared_address_is_in_one_group_on_every_node():
    local = service("a", "10.1.0.1", is_local=True, endpoint_nodes=frozenset({"node2"}))
    common = service("b", "10.1.0.1")
    for order in ((local, common), (common, local)):
        found = [texts(groups(view(node), *order)) for node in NODES]
        assert sum(len(one) for one in found) in (1, 3)
        assert {tuple(addresses) for one in found for _, addresses in one} == {("10.1.0.1",)}


def test_updates_follow_the_services():
    plan, seen = GroupPlan(), view()
    a, b = service("a", "10.1.0.1"), service("b", "10.1.0.2")
    assert plan.update(seen, {a.key: a, b.key: b}, []) == {a.key, b.key}  # the first: all
    assert plan.update(seen, {a.key: a, b.key: b}, [a.key]) == set()
    assert plan.update(replace(seen, members=frozenset()), {a.key: a, b.key: b}, []) == set()
    assert set(plan.services(ipaddress.ip_address("10.1.0.1"))) == {a.key}
    assert plan.addresses(a.key) == {ipaddress.ip_address("10.1.0.1")}
    assert plan.update(seen, {b.key: b}, [a.key]) == {a.key}
    assert texts(plan.groups) == [("eth0", ["10.1.0.2"])]
    assert set(plan.services(ipaddress.ip_address("10.1.0.1"))) == set()
    gone = service("b")
    assert plan.update(seen, {b.key: gone}, [b.key]) == {b.key}
    assert plan.groups == {}


KEYS = st.lists(st.builds(GroupKey, st.sampled_from(["eth0", "eth1"]), st.text(max_size=4)), unique=True, max_size=40)


@given(KEYS)
def test_router_ids_never_clash_and_depend_on_no_order(keys):
    ids = assign_router_ids(keys)
    assert len(set(ids.values())) == len(keys)
    assert all(1 <= number <= 255 for number in ids.values())
    assert assign_router_ids(reversed(keys)) == ids


def test_more_groups_than_router_ids_leave_some_out():
    found = [service(f"s{n}", f"10.1.0.{n % 250}", of=pool(f"eth{n}", name=f"eip{n}")) for n in range(250)]
    found += [service(f"t{n}", f"fd00:b::{n:x}", of=pool(f"lan{n}", name=f"more{n}")) for n in range(10)]
    plan = GroupPlan()
    plan.update(view(), {one.key: one for one in found}, [])
    assert len(plan.groups) == 255
    assert len(plan.refused) == 5


def test_each_node_has_its_own_priority_and_a_leaving_one_the_lowest():
    key = GroupKey("eth0", "selected by ")
    local = [GroupKey("eth0", f"named {text}") for text in ("node1,node2,node3", "node1,node3")]
    assert [name for name in by_rank(local[0], ["node1", "node2", "node3"]) if name != "node2"] == by_rank(
        local[1], ["node1", "node3"]
    )
    nodes = [f"node{number}" for number in range(150)]
    order = by_rank(key, nodes)
    assert sorted(order) == sorted(nodes)
    priorities = [priority_of(rank, is_leaving=False) for rank in range(len(nodes))]
    assert priorities[:3] == [255, 199, 198]  # the first is the master without asking
    assert min(priorities) == 101
    assert len(set(priorities)) == 100  # more nodes than that share the lowest
    assert max(priority_of(rank, is_leaving=True) for rank in range(len(nodes))) <= 100
    orders = {tuple(by_rank(GroupKey(f"eth{n}", "selected by "), nodes[:3])) for n in range(40)}
    assert len(orders) > 2  # groups spread over the nodes


def test_a_node_that_receives_no_other_one_has_a_lower_priority_than_all_others():
    web = service("a", "10.1.0.1")
    plan, seen = GroupPlan(), view()
    others = [group.priority for node in ("node2", "node3") for group in groups(view(node), web).values()]
    plan.update(replace(seen, is_alone=True), {web.key: web}, [web.key])
    [lowered] = plan.groups.values()
    assert lowered.priority <= 100 < min(others)
    plan.update(seen, {web.key: web}, [])
    [restored] = plan.groups.values()
    assert restored.priority > 100
    # It announces nothing of its own accord, and lets the master on the other side have its peace.
    for is_resigned, interval in ((True, "1.0"), (False, "0.1")):
        instance = Instance(lowered, "eth0", has_ipv4=True, is_resigned=is_resigned)
        text = render_configuration([instance], "f", "root", is_alone=True)
        assert "vrrp_garp_master_refresh 0\n" in text
        assert f"advert_int {interval}\n" in text


def test_the_configuration_has_all_groups():
    [group] = groups(view(), service("a", "10.1.0.1", "fd00:b::1")).values()
    text = render_configuration([Instance(group, "eth0", has_ipv4=True)], "/run/fifo", "root")
    for line in (
        "vrrp_version 3",
        "vrrp_notify_fifo /run/fifo",
        f"vrrp_instance {group.key.name} {{",
        "interface eth0",
        f"virtual_router_id {group.router_id}",
        f"priority {group.priority}",
        "advert_int 0.1",
        f"169.254.254.{group.router_id}/32 dev eth0 scope link",
        "10.1.0.1/32 dev eth0",
        "fd00:b::1/128 dev eth0",
    ):
        assert f"{line}\n" in text
    assert f"fe80::5afe:{group.router_id:x}/128" in render_configuration([Instance(group, "eth0", False)], "f", "root")


def test_the_next_node_takes_over_from_a_master_that_leaves_before_all_others():
    web = service("a", "10.1.0.1")
    delays = {}
    for node in NODES:
        [group] = groups(view(node), web).values()
        text = render_configuration([Instance(group, "eth0", has_ipv4=True)], "f", "root")
        delays[group.rank] = [
            line.strip() for line in text.splitlines() if "preempt_delay" in line or " state " in line
        ]
    assert delays == {0: ["state MASTER"], 1: ["state BACKUP"], 2: ["state BACKUP", "preempt_delay 0.1"]}
    far = Instance(replace(group, rank=60), "eth0", has_ipv4=True)
    assert "preempt_delay 0.5\n" in render_configuration([far], "f", "root")


@pytest.mark.parametrize("router_id", [1, 255])
def test_identity_addresses_are_recognised(router_id):
    for has_ipv4 in (True, False):
        address = identity_address(router_id, has_ipv4).partition("/")[0]
        assert is_identity(ipaddress.ip_address(address))
    assert not is_identity(ipaddress.ip_address("169.254.169.254"))


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ('INSTANCE "group-1" MASTER 200\n', ("group-1", True)),
        ('INSTANCE "group-1" MASTER_RX_LOWER_PRI 200', ("group-1", True)),
        ('INSTANCE "group-1" BACKUP 200', ("group-1", False)),
        ('INSTANCE "group-1" FAULT 200', ("group-1", False)),
        ('INSTANCE "group-1" STOP 200', ("group-1", False)),
        ('INSTANCE "group-1" DANCE 200', None),
        ('GROUP "group-1" MASTER 200', None),
        ("", None),
    ],
)
def test_notifications(line, parsed):
    assert parse_notification(line) == parsed
