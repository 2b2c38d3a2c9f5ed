"""Addresses whose connections routers may have given to other nodes."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from bridgehead.balancer.bgp.moved_addresses import SECONDS, Moves
from bridgehead.balancer.compiled_configuration import BgpAdvertisement, NodeSelection, Pool
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import parse_label_selector

NAMES = frozenset({"node1", "node2", "node3"})
POOL = Pool("pool", "metallb", (parse_range("10.1.0.0/16"),), bgp=(BgpAdvertisement("all"),))
WEB, DB = ipaddress.IPv4Address("10.1.0.1"), ipaddress.IPv4Address("10.1.0.2")


def service(name: str, address: ipaddress.IPv4Address, *ready: str, pool: Pool = POOL) -> Publication:
    """A Service; one with `ready` nodes has externalTrafficPolicy Local."""
    nodes = frozenset(ready)
    return Publication(ObjectKey("", name), name, {}, ((address, pool),), bool(nodes), nodes, True, nodes)


class Cluster:
    """`Moves` of node1, after the first moves are over."""

    def __init__(self, *services: Publication) -> None:
        self.moves = Moves()
        self.now = 0.0
        self.view = ClusterView("node1", nodes={name: NodeView(name, {}) for name in NAMES}, members=NAMES)
        self.services = {found.key: found for found in services}
        self.see()
        self.wait(SECONDS)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.moves.expire(self.now)

    def see(
        self, *changed: Publication, leaving: str = "", cordoned: str = "", members: frozenset[str] = NAMES
    ) -> set[object]:
        """Take a new state; return the addresses that have moved."""
        nodes = {name: NodeView(name, {}, is_ending=name == leaving, is_cordoned=name == cordoned) for name in NAMES}
        self.view = replace(self.view, nodes=nodes, members=members)
        self.services |= {found.key: found for found in changed}
        self.moves.update(self.view, self.services, [found.key for found in changed], self.now)
        return set(self.moves.moved)


def test_a_node_that_leaves_moves_all_addresses_for_a_while():
    cluster = Cluster(service("web", WEB), service("db", DB))
    assert set(cluster.moves.announced) == {WEB, DB}
    assert not cluster.moves.moved
    assert cluster.see(leaving="node2") == {WEB, DB}
    cluster.wait(SECONDS / 2)
    assert cluster.see() == {WEB, DB}  # it came back
    cluster.wait(SECONDS / 2)
    assert set(cluster.moves.moved) == {WEB, DB}
    assert cluster.moves.next_end == cluster.now + SECONDS / 2
    cluster.wait(SECONDS / 2)
    assert not cluster.moves.moved
    assert cluster.moves.next_end is None


def test_a_local_endpoint_that_goes_moves_its_services_addresses_only():
    cluster = Cluster(service("web", WEB, "node1", "node2"), service("db", DB, "node1", "node2"))
    assert cluster.see(service("web", WEB, "node2")) == {WEB}
    assert cluster.see(service("web", WEB, "node2"), leaving="node3") == {WEB}


def test_a_speaker_that_begins_or_joins_makes_addresses_move():
    cluster = Cluster(service("web", WEB))
    assert not cluster.see(leaving="node3", members=NAMES) - {WEB}
    assert cluster.see(leaving="node3", members=NAMES - {"node3"}) == {WEB}
    cluster.wait(SECONDS)
    assert cluster.see(members=NAMES) == {WEB}
    cluster.wait(SECONDS)
    assert cluster.see(service("db", DB)) == {DB}


def test_a_death_ends_moves_so_that_connections_of_the_dead_node_are_reset():
    cluster = Cluster(service("web", WEB, "node2", "node3"), service("db", DB, "node1", "node2"))
    assert cluster.see(service("web", WEB, "node1", "node2", "node3"), service("db", DB, "node1")) == {WEB, DB}
    assert cluster.see(members=NAMES - {"node3"}) == {DB}
    # Its endpoints go later.
    assert cluster.see(service("web", WEB, "node1", "node2")) == {DB}


def test_a_death_ends_moves_also_of_a_node_that_was_drained_before():
    cluster = Cluster(service("web", WEB))
    assert cluster.see(cordoned="node2") == {WEB}
    assert not cluster.see(cordoned="node2", members=NAMES - {"node2"})


def test_addresses_are_forgotten_with_their_last_service():
    cluster = Cluster(service("web", WEB), service("other", WEB))
    cluster.see(leaving="node2")
    for name, left in (("web", {WEB}), ("other", set())):
        del cluster.services[ObjectKey("", name)]
        cluster.moves.update(cluster.view, cluster.services, [ObjectKey("", name)], cluster.now)
        assert set(cluster.moves.announced) == left
        assert set(cluster.moves.moved) == left


def test_only_what_bgp_announces_counts():
    selector = parse_label_selector("app=other")
    none = NodeSelection((parse_label_selector("zone=none"),))
    pools = (
        replace(POOL, bgp=()),
        replace(POOL, bgp=(BgpAdvertisement("other", service_selectors=(selector,)),)),
        replace(POOL, bgp=(BgpAdvertisement("none", nodes=none),)),
    )
    for pool in pools:
        cluster = Cluster(service("web", WEB, pool=pool))
        assert not cluster.moves.announced
        assert not cluster.see(leaving="node2")
