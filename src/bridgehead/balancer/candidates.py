"""Nodes that may announce an address. All speakers come to the same answer from the same view.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.objects.selectors import Selector

from .model import NodeSelection
from .view import ClusterView, Publication


def is_selected(publication: Publication, selectors: Sequence[Selector]) -> bool:
    """Whether an advertisement with these serviceSelectors concerns the Service."""
    return not selectors or any(selector.matches(publication.labels) for selector in selectors)


def announcing_nodes(view: ClusterView, publication: Publication, nodes: NodeSelection) -> frozenset[str]:
    """Return the nodes that may announce a Service's addresses, of those that `nodes` selects.

    No node without an endpoint that counts; with externalTrafficPolicy Local only nodes that have one. Nodes that
    leave count only if no other node is left. Liveness is not considered here. Source: MetalLB's speaker, which
    withdraws a Service without ready or serving endpoints everywhere.
    """
    if not publication.has_endpoints:
        return frozenset()
    able = [
        node
        for node in view.nodes.values()
        if not node.is_excluded
        and nodes.matches(node.labels)
        and (not publication.is_local or node.name in publication.endpoint_nodes)
    ]
    staying = frozenset(node.name for node in able if not node.is_leaving)
    return staying or frozenset(node.name for node in able)
