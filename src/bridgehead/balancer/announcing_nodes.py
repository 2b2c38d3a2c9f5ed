"""Nodes that may announce an address. All speakers come to the same answer from the same view.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.objects.selectors import Selector

from .compiled_configuration import NodeSelection
from .view import ClusterView, Publication


def is_selected(publication: Publication, selectors: Sequence[Selector]) -> bool:
    """Whether an advertisement with these serviceSelectors concerns the Service."""
    return not selectors or any(selector.matches(publication.labels) for selector in selectors)


def eligible_nodes(view: ClusterView, nodes: NodeSelection) -> frozenset[str]:
    """Return the nodes that `nodes` selects and that may announce addresses at all. Liveness is not considered."""
    return frozenset(node.name for node in view.nodes.values() if not node.is_excluded and nodes.matches(node.labels))


def leaving_nodes(view: ClusterView) -> frozenset[str]:
    """Return the nodes whose addresses move away."""
    return frozenset(node.name for node in view.nodes.values() if node.is_leaving)


def placement(publication: Publication, eligible: frozenset[str], leaving: frozenset[str]) -> frozenset[str]:
    """Return the nodes, of those in `eligible`, that may announce a Service's addresses.

    No node without an endpoint that counts; with externalTrafficPolicy Local only nodes that have one. Nodes whose
    endpoints all terminate, and nodes that leave, count only if no other node is left. Source: MetalLB's speaker, which
    withdraws a Service without ready or serving endpoints everywhere.
    """
    if not publication.has_endpoints:
        return frozenset()
    able = eligible
    if publication.is_local:
        # An address has to leave a node before its last endpoint is stopped, so that no connection is refused.
        able = eligible & publication.ready_nodes or eligible & publication.endpoint_nodes
    return (able - leaving) or able


def announcing_nodes(view: ClusterView, publication: Publication, nodes: NodeSelection) -> frozenset[str]:
    """Return the `placement` of a Service on the nodes that `nodes` selects. Liveness is not considered."""
    return placement(publication, eligible_nodes(view, nodes), leaving_nodes(view))
