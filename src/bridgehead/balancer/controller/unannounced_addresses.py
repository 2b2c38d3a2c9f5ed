"""Reasons why no node announces an address that a Service has.

The API's objects alone count: endpoints, nodes, advertisements and peers. Whether speakers run is not considered.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.balancer.allocation import Pending, PendingReason
from bridgehead.balancer.announcing_nodes import announcing_nodes, eligible_nodes, is_selected
from bridgehead.balancer.compiled_configuration import BgpAdvertisement, Layer2Advertisement, Pool, VrrpAdvertisement
from bridgehead.balancer.view import ClusterView, Publication

_Advertisement = Layer2Advertisement | BgpAdvertisement | VrrpAdvertisement


def why_unannounced(view: ClusterView, publication: Publication) -> Pending | None:
    """Return why some addresses of a Service are announced by no node; None if all may be announced.

    The reason is that of the first such address; the message names all of them. `view.this_node` has no influence.
    """
    found: dict[Pending, list[str]] = {}
    for address, pool in publication.addresses:
        reason = _why(view, publication, pool)
        if reason is not None:
            found.setdefault(reason, []).append(str(address))
    if not found:
        return None
    parts = [f"no node announces {', '.join(addresses)}: {why.message}" for why, addresses in found.items()]
    return Pending(next(iter(found)).reason, "; ".join(parts))


def _why(view: ClusterView, publication: Publication, pool: Pool) -> Pending | None:
    if pool.source == "openelb" and not _advertisements(pool):  # one for BGP is there with the first BgpPeer
        return Pending(PendingReason.NO_PEER, f'no BgpPeer exists for Eip "{pool.name}"')
    advertisements = [one for one in _advertisements(pool) if _concerns(one, publication)]
    if not advertisements:
        text = f'no advertisement is for the Service in pool "{pool.name}"'
        return Pending(PendingReason.NO_ADVERTISEMENT, text)
    if not publication.has_endpoints:
        return Pending(PendingReason.NO_ENDPOINTS, "the Service has no ready endpoint")
    selected = [one for one in advertisements if any(one.nodes.matches(node.labels) for node in view.nodes.values())]
    if not selected:
        return Pending(PendingReason.NO_NODE, "the advertisements select no node that exists")
    usable = [one for one in selected if eligible_nodes(view, one.nodes)]
    if not usable:
        text = "the nodes that the advertisements select are NetworkUnavailable or excluded from load balancers"
        return Pending(PendingReason.NO_NODE, text)
    announcing = [(one, nodes) for one in usable if (nodes := announcing_nodes(view, publication, one.nodes))]
    if not announcing:
        text = "externalTrafficPolicy is Local, and no node that may announce has a ready endpoint"
        return Pending(PendingReason.NO_ENDPOINTS, text)
    if not any(_has_peer(view, one, nodes) for one, nodes in announcing):
        return Pending(PendingReason.NO_PEER, "no BGP peer is for the advertisements and the nodes that may announce")
    return None


def _advertisements(pool: Pool) -> tuple[_Advertisement, ...]:
    return (*pool.layer2, *pool.bgp, *pool.vrrp)


def _concerns(advertisement: _Advertisement, publication: Publication) -> bool:
    return isinstance(advertisement, VrrpAdvertisement) or is_selected(publication, advertisement.service_selectors)


def _has_peer(view: ClusterView, advertisement: _Advertisement, nodes: Iterable[str]) -> bool:
    """Whether one of the nodes has a peer, where the advertisement needs one."""
    if not isinstance(advertisement, BgpAdvertisement):
        return True
    return any(
        peer.nodes.matches(view.nodes[node].labels)
        for peer in view.configuration.peers.values()
        if advertisement.is_for(peer.name)
        for node in nodes
    )
