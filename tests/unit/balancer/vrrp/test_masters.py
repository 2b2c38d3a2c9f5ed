"""The node that should be the master of an address, and the one that was before."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from bridgehead.balancer.compiled_configuration import Configuration, Pool, VrrpAdvertisement
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.balancer.vrrp.address_groups import GroupPlan
from bridgehead.balancer.vrrp.masters import Masters
from bridgehead.objects.meta import ObjectKey

POOL = Pool("eip", "openelb", (parse_range("10.1.0.0/24"),), vrrp=(VrrpAdvertisement("eip", "eth0"),))
ADDRESS = ipaddress.ip_address("10.1.0.1")
NODES = ("node1", "node2", "node3")
ALL = frozenset(NODES)
WEB = Publication(ObjectKey("default", "web"), "uid", {}, ((ADDRESS, POOL),), False, ALL, True, ALL)


class Speaker:
    """A speaker's plan and its masters."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.plan = GroupPlan()
        self.masters = Masters()

    def see(self, *, members: frozenset[str] = ALL, leaving: str = "", service: Publication = WEB) -> list[str]:
        """Return the master now and the one before, if the master is another one than at the last call."""
        nodes = {name: NodeView(name, {}, is_ending=name == leaving) for name in NODES}
        view = ClusterView(self.node, Configuration(), nodes, members)
        self.plan.update(view, {service.key: service}, [service.key])
        moved = self.masters.update(self.plan.expected)
        return [self.masters.master(ADDRESS), self.masters.previous(ADDRESS)] if moved else []


def order() -> list[str]:
    """Return the nodes in the order of their priorities, as keepalived gets them."""
    priorities = {}
    for node in NODES:
        speaker = Speaker(node)
        speaker.see()
        [group] = speaker.plan.groups.values()
        priorities[group.priority] = node
    return [priorities[priority] for priority in sorted(priorities, reverse=True)]


def test_the_master_before_is_known_to_all_alike():
    first, second, third = order()
    for node in NODES:
        speaker = Speaker(node)
        # A speaker that has just begun: the master meanwhile was the node that would be it without this one.
        assert speaker.see() == [first, second if node == first else first]
        assert speaker.see() == []
        # A cordon or the end of a speaker, the next node's death, and the return of both.
        assert speaker.see(leaving=first) == [second, first]
        assert speaker.see(leaving=first, members=frozenset({first, third})) == [third, second]
        assert speaker.see() == [first, third]
        # If all nodes leave, the one with the highest priority stays.
        assert speaker.see(leaving=first, members=frozenset({first})) == []


def test_a_local_service_moves_with_its_endpoints_from_group_to_group():
    first = order()[0]
    other = next(node for node in NODES if node != first)
    for node in NODES:
        speaker = Speaker(node)
        for nodes, moved in (({first}, [first]), ({other}, [other, first]), ({first}, [first, other])):
            ready = frozenset(nodes)
            local = replace(WEB, is_local=True, endpoint_nodes=ready, ready_nodes=ready)
            assert speaker.see(service=local)[: len(moved)] == moved


def test_while_no_node_can_be_the_master_the_last_one_counts():
    first, second, _ = order()
    speaker = Speaker(second)
    speaker.see()
    assert speaker.see(members=frozenset()) == []
    assert speaker.see(members=frozenset({second})) == [second, first]
    assert speaker.masters.of(second) == {ADDRESS}
    # No node had an address whose Service has no endpoints.
    assert speaker.see(service=replace(WEB, has_endpoints=False)) == []
    assert speaker.masters.of(second) == set()
    assert speaker.masters.master(ADDRESS) == speaker.masters.previous(ADDRESS) == ""
    # Since this speaker began, there were no others.
    alone = Speaker(first)
    assert alone.see(members=frozenset()) == ["", ""]
    assert alone.see(members=ALL) == [first, second]
