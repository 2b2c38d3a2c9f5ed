"""The cluster as speakers see it: Services to announce, nodes, members.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import Labels

from .model import Configuration, Pool
from .ranges import IpAddress


@dataclass(frozen=True)
class Publication:
    """A Service whose addresses are to be announced.

    `addresses`: those of its status, and its externalIPs that a pool contains, in the Service's order, each with the
    pool that contains it. `endpoint_nodes`: nodes with an endpoint that counts (ready or serving). `has_endpoints`:
    any endpoint counts, on whatever node. `is_local`: externalTrafficPolicy Local.
    """

    key: ObjectKey
    uid: str
    labels: Labels
    addresses: tuple[tuple[IpAddress, Pool], ...]
    is_local: bool
    endpoint_nodes: frozenset[str]
    has_endpoints: bool


@dataclass(frozen=True)
class NodeView:
    """A node as speakers see it. `is_excluded`: NetworkUnavailable, or labelled as excluded from load balancers.

    `is_leaving`: cordoned for a drain, or its speaker is about to end; its addresses move away while it still forwards.
    """

    name: str
    labels: Labels
    is_excluded: bool = False
    is_leaving: bool = False


@dataclass(frozen=True)
class ClusterView:
    """All that a decision depends on besides the Service. `members`: nodes whose speakers the failure detector
    believes alive, this one included. Values, never changed in place."""

    this_node: str
    configuration: Configuration = field(default_factory=Configuration)
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
