"""The cluster as speakers see it: Services to announce, nodes, members.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import Labels

from .compiled_configuration import Configuration, Pool
from .ranges import IpAddress


@dataclass(frozen=True, slots=True)
class Publication:
    """A Service whose addresses are to be announced.

    `addresses`: those of its status, and its externalIPs that a pool contains, in the Service's order, each with the
    pool that contains it. `endpoint_nodes`: nodes with an endpoint that counts (ready or serving). `ready_nodes`: those
    with a ready one. `has_endpoints`: any endpoint counts, on whatever node. `is_local`: externalTrafficPolicy Local.
    """

    key: ObjectKey
    uid: str
    labels: Labels
    addresses: tuple[tuple[IpAddress, Pool], ...]
    is_local: bool
    endpoint_nodes: frozenset[str]
    has_endpoints: bool
    ready_nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NodeView:
    """A node as speakers see it. `is_excluded`: NetworkUnavailable, or labelled as excluded from load balancers.

    `is_ending`: its speaker is about to end. `addresses`: its InternalIPs.
    """

    name: str
    labels: Labels
    is_excluded: bool = False
    is_ending: bool = False
    addresses: tuple[str, ...] = ()
    is_cordoned: bool = False

    @property
    def is_leaving(self) -> bool:
        """Whether its addresses move away while it still forwards: before a drain, or before its speaker ends."""
        return self.is_cordoned or self.is_ending

    def ip_addresses(self) -> Iterator[IpAddress]:
        """Yield the addresses, without texts that are none."""
        for text in self.addresses:
            with contextlib.suppress(ValueError):
                yield ipaddress.ip_address(text)


@dataclass(frozen=True)
class ClusterView:
    """All that a decision depends on besides the Service. `members`: nodes whose speakers the failure detector
    believes alive, this one included if the others receive it. `is_isolated`: this node suddenly receives no other one,
    so that it is rather cut off itself. `is_alone`: it receives no other one, for whatever reason. Values, never
    changed in place."""

    this_node: str
    configuration: Configuration = field(default_factory=Configuration)
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
    is_isolated: bool = False
    is_alone: bool = False
