"""Election of the node that holds an address: all speakers come to the same result from the same view.

The candidates are the live nodes that may announce the Service. The one with the highest sum of preferences holds the
address; among several, that with the lowest `sha256(node#address)`, where `address` is the first one of the Service.
Addresses are therefore spread over the nodes, a node that dies moves only its own addresses, and a node that joins
takes only those that it keeps. Source: MetalLB's layer 2 speaker. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from bridgehead.balancer.announcing_nodes import eligible_nodes, is_selected, leaving_nodes, placement
from bridgehead.balancer.compiled_configuration import Layer2Advertisement, NodeSelection, Pool
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.shared_sets import shared
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.objects.meta import ObjectKey


class Holder(NamedTuple):
    """The node that holds an address, the interfaces on which it announces (empty: all), and why this node."""

    node: str
    interfaces: frozenset[str]
    service: ObjectKey
    reason: str


class _Candidates(NamedTuple):
    nodes: frozenset[str]
    advertisements: tuple[Layer2Advertisement, ...]


class Election:
    """The elected holders, kept up to date. `serves_vrrp`: layer 2 serves addresses of VRRP advertisements."""

    def __init__(self, *, serves_vrrp: bool = False) -> None:
        self._serves_vrrp = serves_vrrp
        self._view = ClusterView("")
        self._leaving: frozenset[str] = frozenset()
        self._eligible: dict[NodeSelection, frozenset[str]] = {}
        self._publications: Mapping[ObjectKey, Publication] = {}
        self._addresses: dict[ObjectKey, tuple[IpAddress, ...]] = {}  # of each Service at the last update
        self._services: dict[IpAddress, tuple[ObjectKey, ...]] = {}
        self._holders: dict[IpAddress, Holder] = {}
        self._previous: dict[IpAddress, str] = {}  # the node that held an address before its holder

    def get(self, address: IpAddress) -> Holder | None:
        """Return the holder of an address; None if no node may announce it."""
        return self._holders.get(address)

    def previous_node(self, address: IpAddress) -> str:
        """Return the node that held an address before its holder; "" if no node could.

        For the first holder since this speaker began, it is the node that would hold the address without this one.
        """
        if address in self._previous:
            return self._previous[address]
        other = self._choose(address, without=self._view.this_node)
        return other.node if other is not None else ""

    def services(self, address: IpAddress) -> Collection[ObjectKey]:
        """Return the Services that have an address."""
        return self._services.get(address, ())

    def addresses(self, service: ObjectKey) -> Collection[IpAddress]:
        """Return the addresses of a Service."""
        return self._addresses.get(service, ())

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> set[IpAddress]:
        """Decide anew what may have changed, and return the addresses whose holder is another one, or differs."""
        affected = self._affected_by_view(view)
        self._publications = publications
        for key in changed:
            affected.update(self._addresses.get(key, ()))
            affected.update(self._register(key))
        return {address for address in affected if self._decide(address)}

    def _affected_by_view(self, view: ClusterView) -> set[IpAddress]:
        old, self._view = self._view, view
        if view.nodes is old.nodes and view.members == old.members:
            return set()
        self._eligible.clear()
        self._leaving = leaving_nodes(view)
        if view.nodes != old.nodes or not view.members <= old.members:
            return set(self._services)
        # Some members died. A holder that is alive still has the lowest hash of those that are left.
        return {
            address
            for address, services in self._services.items()
            if len(services) > 1 or (holder := self._holders.get(address)) is None or holder.node not in view.members
        }

    def _register(self, key: ObjectKey) -> tuple[IpAddress, ...]:
        """Record the addresses of a Service, and return them."""
        for address in self._addresses.pop(key, ()):
            others = tuple(other for other in self._services.pop(address) if other != key)
            if others:
                self._services[address] = others
            else:
                self._previous.pop(address, None)
        publication = self._publications.get(key)
        addresses = tuple(address for address, _ in publication.addresses) if publication is not None else ()
        if addresses:
            self._addresses[key] = addresses
            for address in addresses:
                self._services[address] = (*self._services.get(address, ()), key)
        return addresses

    # --- The decision --------------------------------------------------------------------------------------------

    def _decide(self, address: IpAddress) -> bool:
        """Decide who holds an address. Return whether the answer differs from the last one."""
        holder = self._choose(address)
        before = self._holders.get(address)
        if holder == before:
            return False
        if before is not None and (holder is None or holder.node != before.node):
            self._previous[address] = before.node
        if holder is None:
            del self._holders[address]
        else:
            self._holders[address] = holder
        return True

    def _choose(self, address: IpAddress, without: str = "") -> Holder | None:
        """Return the holder. Services that share the address are announced by one node that may announce all of them.

        If there is no such node, the Service with the lowest name decides. `without`: a node that does not count.
        """
        services = sorted(self._services.get(address, ()))
        found = [(key, candidates) for key in services if (candidates := self._candidates(key, address, without)).nodes]
        if not found:
            return None
        key, (nodes, advertisements) = found[0]
        for _, other in found[1:]:
            nodes = nodes & other.nodes or nodes
        first = self._publications[key].addresses[0][0]
        preferred = self._preferred(nodes, advertisements)
        winner = min(preferred, key=lambda node: rank(node, first))
        if len(nodes) == 1:
            reason = "the only node that may announce it"
        elif len(preferred) == 1:
            reason = "preferred by its advertisement"
        else:
            reason = f"lowest hash of {len(preferred)} nodes"
        return Holder(winner, shared(self._interfaces(winner, advertisements)), key, sys.intern(reason))

    def _candidates(self, key: ObjectKey, address: IpAddress, without: str) -> _Candidates:
        publication = self._publications[key]
        pool = next(pool for other, pool in publication.addresses if other == address)
        advertisements = tuple(
            advertisement
            for advertisement in self._advertisements(pool)
            if is_selected(publication, advertisement.service_selectors)
        )
        eligible: frozenset[str] = frozenset()
        for advertisement in advertisements:
            eligible |= self._alive(advertisement.nodes) - {without}
        return _Candidates(placement(publication, eligible, self._leaving), advertisements)

    def _advertisements(self, pool: Pool) -> Iterator[Layer2Advertisement]:
        yield from pool.layer2
        if self._serves_vrrp:
            for other in pool.vrrp:
                yield Layer2Advertisement(other.name, other.nodes, (other.interface,) if other.interface else ())

    def _alive(self, nodes: NodeSelection) -> frozenset[str]:
        """Return the members that may announce, of those that `nodes` selects."""
        found = self._eligible.get(nodes)
        if found is None:
            found = self._eligible[nodes] = eligible_nodes(self._view, nodes) & self._view.members
        return found

    def _preferred(self, nodes: frozenset[str], advertisements: Iterable[Layer2Advertisement]) -> frozenset[str]:
        """Return the nodes with the highest sum of preferences, of the advertisements that select them."""
        preferring = [advertisement for advertisement in advertisements if advertisement.preferences]
        if not preferring:
            return nodes
        sums = {}
        for node in nodes:
            labels = self._view.nodes[node].labels
            selecting = [advertisement for advertisement in preferring if advertisement.nodes.matches(labels)]
            sums[node] = sum(
                weight for one in selecting for weight, selector in one.preferences if selector.matches(labels)
            )
        highest = max(sums.values())
        return frozenset(node for node, total in sums.items() if total == highest)

    def _interfaces(self, node: str, advertisements: Iterable[Layer2Advertisement]) -> frozenset[str]:
        """Return the interfaces of the advertisements that select the node; empty if one of them names none."""
        labels = self._view.nodes[node].labels
        selecting = [advertisement for advertisement in advertisements if advertisement.nodes.matches(labels)]
        if not all(advertisement.interfaces for advertisement in selecting):
            return frozenset()
        return frozenset(name for advertisement in selecting for name in advertisement.interfaces)


def rank(node: str, address: IpAddress) -> bytes:
    """Return the hash by which candidates are ordered."""
    return hashlib.sha256(f"{node}#{address}".encode()).digest()
