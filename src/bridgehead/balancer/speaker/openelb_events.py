"""OpenELB's Events about announcements: SetBalancer and DelBalancer of Services, ConfigSpeaker of Eips.

All speakers follow the announcements, and the first member by name records the Events. Source: OpenELB v0.6, its
speaker manager.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from bridgehead.balancer.announcer import EventReport
from bridgehead.balancer.announcing_nodes import announcing_nodes
from bridgehead.balancer.compiled_configuration import Pool
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.objects.meta import ObjectKey


class OpenElbEvents:
    """The announcements of addresses of Eips, kept up to date."""

    def __init__(self) -> None:
        self._next_hops: dict[ObjectKey, dict[IpAddress, frozenset[str]]] = {}
        self._pools: dict[str, tuple[str, str]] = {}  # protocol and interface by the Eip's name
        self._view: ClusterView | None = None

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> list[EventReport]:
        """Take a new state, of which only `changed` Services differ. Return what is new for OpenELB's users."""
        if self._view is None and view.this_node not in view.members:
            return []  # the others may count on this node already, and leave to it what it would pass over here
        old, self._view = self._view, view
        reports: list[EventReport] = []
        if old is None or old.configuration is not view.configuration:
            reports += self._configure(view)
        if old is None:
            changed = publications.keys()
        elif old.configuration is not view.configuration or old.nodes != view.nodes:
            changed = {*changed, *self._next_hops}
        for key in sorted(changed):
            reports += self._publish(view, key, publications.get(key))
        return reports if view.this_node == min(view.members, default="") else []

    def _configure(self, view: ClusterView) -> Iterator[EventReport]:
        old = self._pools
        self._pools = {
            pool.name: (_protocol(pool), interface_of(pool))
            for pool in view.configuration.pools
            if pool.source == "openelb"
        }
        for name, (protocol, _) in sorted(old.items()):
            if self._pools.get(name) != old[name]:
                yield EventReport(name, "Normal", "ConfigSpeaker", f"unconfig openelb {protocol} speaker successfully")
        for name, (protocol, _) in sorted(self._pools.items()):
            if self._pools[name] != old.get(name):
                yield EventReport(name, "Normal", "ConfigSpeaker", f"config openelb {protocol} speaker successfully")

    def _publish(self, view: ClusterView, key: ObjectKey, publication: Publication | None) -> Iterator[EventReport]:
        old = self._next_hops.pop(key, {})
        pairs = publication.addresses if publication is not None else ()
        new = {
            address: _nodes(view, publication, pool)
            for address, pool in pairs
            if publication is not None and pool.source == "openelb"
        }
        if new:
            self._next_hops[key] = new
        for address in old:
            if address not in new:
                yield EventReport(key, "Normal", "DelBalancer", "success to withdraw announcement for service")
        for address, nodes in new.items():
            if nodes == old.get(address):
                continue
            if nodes:
                message = f"success to add nexthops [{', '.join(sorted(nodes))}]"
                yield EventReport(key, "Normal", "SetBalancer", message)
            elif old.get(address):  # a new Service, whose pods start, has nothing to delete
                message = f"delete balancer with no available nodes for service ip {address}:{key}."
                yield EventReport(key, "Warning", "SetBalancer", message)


def missing_interface(pool: Pool, node: str) -> EventReport:
    """Return the Event of a node that lacks the interface of an Eip."""
    message = f"interface {interface_of(pool)}: no such network interface on node {node}"
    return EventReport(pool.name, "Warning", "ConfigSpeakerFailed", message)


def _protocol(pool: Pool) -> str:
    return "layer2" if pool.layer2 else "vip" if pool.vrrp else "bgp"


def interface_of(pool: Pool) -> str:
    """Return the interface of an Eip as the object has it; "" if it needs none."""
    names = [name for advertisement in pool.layer2 for name in advertisement.interfaces]
    names += [advertisement.interface for advertisement in pool.vrrp]
    return names[0] if names else ""


def _nodes(view: ClusterView, publication: Publication, pool: Pool) -> frozenset[str]:
    selections = [advertisement.nodes for advertisement in pool.layer2]
    selections += [advertisement.nodes for advertisement in pool.vrrp]
    selections += [advertisement.nodes for advertisement in pool.bgp]
    return frozenset(node for selection in selections for node in announcing_nodes(view, publication, selection))
