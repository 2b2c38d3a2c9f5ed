"""Routes that this node announces to each BGP peer.

Source: MetalLB's speaker. Every node that may announce a Service announces a route to itself for each of its addresses,
so routers spread connections over these nodes (equal-cost multipath).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bridgehead.balancer.announcing_nodes import eligible_nodes, is_selected, leaving_nodes, placement
from bridgehead.balancer.compiled_configuration import BgpAdvertisement, NodeSelection
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.shared_sets import shared
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.objects.meta import ObjectKey

Prefix = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Route:
    """A route with its attributes. `local_preference` 0: the default. `communities`: (a, b), or large (a, b, c)."""

    prefix: Prefix
    local_preference: int = 0
    communities: frozenset[tuple[int, ...]] = frozenset()


@dataclass(frozen=True, slots=True)
class _Claim:
    """A route that one advertisement of one address asks for, for some peers."""

    peers: frozenset[str]
    route: Route
    address: IpAddress


class PlanChange(NamedTuple):
    """Difference between two plans: prefixes, by peer, whose routes may differ, and Services."""

    prefixes: dict[str, set[Prefix]]
    services: set[ObjectKey]


class RoutePlan:
    """The routes of this node, kept up to date. Work is done for the Services that changed only."""

    def __init__(self) -> None:
        self._view: ClusterView | None = None
        self._eligible: dict[NodeSelection, frozenset[str]] = {}  # nodes by what selects them
        self._leaving: frozenset[str] = frozenset()
        self._cordoned: frozenset[str] = frozenset()
        self._claims: dict[ObjectKey, tuple[_Claim, ...]] = {}
        # Services by the prefixes that they want; several, if addresses share an aggregate or Services an address
        self._services: dict[Prefix, tuple[ObjectKey, ...]] = {}

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> PlanChange:
        """Take a new state. Return what changed.

        `changed`: the Services that changed or went. The members of the view have no influence.
        """
        if self._view is None or not _is_alike(self._view, view):
            changed = publications.keys() | self._claims.keys()
            self._eligible.clear()
            self._leaving = leaving_nodes(view)
            self._cordoned = frozenset(node.name for node in view.nodes.values() if node.is_cordoned)
        self._view = view
        change = PlanChange({}, set())
        for key in changed:
            publication = publications.get(key)
            claims = tuple(dict.fromkeys(self._wanted(view, publication))) if publication is not None else ()
            before = self._claims.get(key, ())
            if claims == before:
                continue
            change.services.add(key)
            for claim in before + claims:
                for peer in claim.peers:
                    change.prefixes.setdefault(peer, set()).add(claim.route.prefix)
            self._replace(key, claims)
        return change

    def route(self, peer: str, prefix: Prefix) -> Route | None:
        """Return the route for a prefix, with the attributes of all Services that want it; None if none does."""
        routes = {
            claim.route: None
            for key in self._services.get(prefix, ())
            for claim in self._claims[key]
            if claim.route.prefix == prefix and peer in claim.peers
        }
        return _merge(prefix, routes) if routes else None

    def routes(self, peer: str) -> dict[Prefix, Route]:
        """Return all routes for a peer."""
        found = ((prefix, self.route(peer, prefix)) for prefix in self._services)
        return {prefix: route for prefix, route in found if route is not None}

    def services(self) -> Collection[ObjectKey]:
        """Return the Services with an announced address."""
        return self._claims.keys()

    def announced(self, key: ObjectKey) -> dict[IpAddress, frozenset[str]]:
        """Return the announced addresses of a Service, with the peers that have a route for them."""
        found: dict[IpAddress, frozenset[str]] = {}
        for claim in self._claims.get(key, ()):
            found[claim.address] = found.get(claim.address, frozenset()) | claim.peers
        return found

    def _replace(self, key: ObjectKey, claims: tuple[_Claim, ...]) -> None:
        # Several claims may be for one prefix: addresses in one aggregate.
        for prefix in {claim.route.prefix for claim in self._claims.pop(key, ())}:
            others = tuple(other for other in self._services.pop(prefix) if other != key)
            if others:
                self._services[prefix] = others
        if claims:
            self._claims[key] = claims
        for prefix in {claim.route.prefix for claim in claims}:
            self._services[prefix] = (*self._services.get(prefix, ()), key)

    def _wanted(self, view: ClusterView, publication: Publication) -> Iterator[_Claim]:
        """Yield the routes of this node for a Service.

        A speaker that ends withdraws none from peers with graceful restart, which keep them for the next speaker.
        """
        for address, pool in publication.addresses:
            for advertisement in pool.bgp:
                if not is_selected(publication, advertisement.service_selectors):
                    continue
                prefix = _aggregate(address, advertisement)
                route = Route(prefix, advertisement.local_preference, advertisement.communities)
                eligible = self._eligible_nodes(view, advertisement.nodes)
                for is_graceful, leaving in ((False, self._leaving), (True, self._cordoned)):
                    peers = _peers(view, advertisement, is_graceful=is_graceful)
                    if peers and view.this_node in placement(publication, eligible, leaving):
                        yield _Claim(peers, route, address)

    def _eligible_nodes(self, view: ClusterView, selection: NodeSelection) -> frozenset[str]:
        if selection not in self._eligible:
            self._eligible[selection] = eligible_nodes(view, selection)
        return self._eligible[selection]


def _is_alike(old: ClusterView, new: ClusterView) -> bool:
    return old.configuration is new.configuration and old.nodes == new.nodes and old.this_node == new.this_node


def _peers(view: ClusterView, advertisement: BgpAdvertisement, *, is_graceful: bool) -> frozenset[str]:
    """Return the names of this node's peers that an advertisement is for, with graceful restart or without."""
    node = view.nodes.get(view.this_node)
    if node is None:
        return frozenset()
    return shared(
        frozenset(
            peer.name
            for peer in view.configuration.peers.values()
            if peer.graceful_restart == is_graceful
            and peer.nodes.matches(node.labels)
            and advertisement.is_for(peer.name)
        )
    )


def _aggregate(address: IpAddress, advertisement: BgpAdvertisement) -> Prefix:
    if isinstance(address, ipaddress.IPv4Address):
        return ipaddress.IPv4Network((address, advertisement.aggregation_length), strict=False)
    return ipaddress.IPv6Network((address, advertisement.aggregation_length_v6), strict=False)


def _merge(prefix: Prefix, routes: Collection[Route]) -> Route:
    """Return one route with the communities of all. Configurations with different local preferences are refused."""
    if len(routes) == 1:
        return next(iter(routes))
    communities = frozenset(community for route in routes for community in route.communities)
    return Route(prefix, max(route.local_preference for route in routes), communities)
