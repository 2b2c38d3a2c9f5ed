"""Addresses whose open connections routers may have given to other nodes a short while ago, as planned.

Routers choose the nodes of connections anew when the nodes that announce an address change. Connections through a node
that died are lost, and are to be reset at once, so a death ends what is known of the addresses that the node had, also
if they had been moved away from it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from bridgehead.balancer.announcing_nodes import announcing_nodes, is_selected
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.shared_sets import shared
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.objects.meta import ObjectKey

# Time for open connections to end: what load balancers of clouds give them by default (AWS: deregistration delay).
SECONDS: Final = 300.0


class _Announced(NamedTuple):
    """Addresses of a Service that BGP announces, and the nodes that are alive and do so."""

    addresses: tuple[IpAddress, ...] = ()
    nodes: frozenset[str] = frozenset()


class _Move(NamedTuple):
    """The end of a move, and the nodes that may have connections of the address."""

    end: float
    nodes: frozenset[str]


class Moves:
    """The addresses that BGP announces, and those of them that moved. Work is done for the Services that changed.

    Times are seconds of any clock.
    """

    def __init__(self) -> None:
        self._view = ClusterView("")
        self._services: dict[ObjectKey, _Announced] = {}
        self._announced: Counter[IpAddress] = Counter()  # Services may share an address
        self._moves: dict[IpAddress, _Move] = {}  # the one that ends next first

    @property
    def announced(self) -> Collection[IpAddress]:
        return self._announced.keys()

    @property
    def moved(self) -> Collection[IpAddress]:
        return self._moves.keys()

    @property
    def next_end(self) -> float | None:
        """The time for the next call of `expire`."""
        move = next(iter(self._moves.values()), None)
        return None if move is None else move.end

    def expire(self, now: float) -> None:
        """Forget the moves of long ago."""
        while (end := self.next_end) is not None and end <= now:
            del self._moves[next(iter(self._moves))]

    def update(
        self,
        view: ClusterView,
        publications: Mapping[ObjectKey, Publication],
        changed: Collection[ObjectKey],
        now: float,
    ) -> None:
        """Take a new state. `changed`: the Services that changed or went.

        Addresses that this speaker has not known before count as moved: it may have just joined the others.
        """
        old, self._view = self._view, view
        if not _is_alike(old, view):
            changed = publications.keys() | self._services.keys()
        dead = frozenset(name for name in old.members - view.members if not _is_ending(old, name))
        if dead:
            self._moves = {address: move for address, move in self._moves.items() if not move.nodes & dead}
        for key in changed:
            publication = publications.get(key)
            before = self._services.pop(key, _Announced())
            after = _announced(view, publication) if publication is not None else _Announced()
            if after.addresses:
                self._services[key] = after
            self._count(before.addresses, after.addresses)
            for address in after.addresses:
                if before.nodes != after.nodes:
                    move = self._moves.pop(address, None)
                    if not before.nodes & dead:
                        nodes = before.nodes | move.nodes if move is not None else before.nodes
                        self._moves[address] = _Move(now + SECONDS, shared(nodes))

    def _count(self, before: Collection[IpAddress], after: Collection[IpAddress]) -> None:
        self._announced.update(after)
        self._announced.subtract(before)
        for address in before:
            if not self._announced[address]:
                del self._announced[address]
                self._moves.pop(address, None)


def _announced(view: ClusterView, publication: Publication) -> _Announced:
    addresses = []
    nodes: frozenset[str] = frozenset()
    for address, pool in publication.addresses:
        found = [
            announcing_nodes(view, publication, advertisement.nodes)
            for advertisement in pool.bgp
            if is_selected(publication, advertisement.service_selectors)
        ]
        if any(found):
            addresses.append(address)
            nodes = nodes.union(*found)
    return _Announced(tuple(addresses), shared(nodes & view.members))


def _is_alike(old: ClusterView, new: ClusterView) -> bool:
    return old.configuration is new.configuration and old.nodes == new.nodes and old.members == new.members


def _is_ending(view: ClusterView, node: str) -> bool:
    return node in view.nodes and view.nodes[node].is_ending
