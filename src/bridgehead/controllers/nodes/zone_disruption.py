"""Disruption of zones, and the eviction rate that follows from it.

When most nodes of a zone seem to have failed, the network or the control plane is the more likely cause, and eviction
slows down or stops. Pure: no I/O, no clock, no randomness. Source:
kube-controller-manager's node-lifecycle-controller (`ComputeZoneState`, `handleDisruption`, `ReducedQPSFunc`) with its
default settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from bridgehead.objects.core import REGION_LABEL, ZONE_LABEL, Node

UNHEALTHY_ZONE_THRESHOLD = 0.55
LARGE_CLUSTER_SIZE = 50
EVICTION_RATE = 0.1  # nodes per second and zone
SECONDARY_EVICTION_RATE = 0.01  # nodes per second, in a large zone that is partially disrupted

_EXCLUDED_LABEL = "node.kubernetes.io/exclude-disruption"
_FEW = 2  # failed nodes that are not a disruption yet

Zone = tuple[str, str]


class ZoneState(Enum):
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


def zone_of(node: Node) -> Zone:
    """Return region and zone of a node. Nodes without labels form one zone."""
    return node.metadata.labels.get(REGION_LABEL, ""), node.metadata.labels.get(ZONE_LABEL, "")


def zone_state(healthy: int, unhealthy: int) -> ZoneState:
    if unhealthy and not healthy:
        return ZoneState.FULL_DISRUPTION
    if unhealthy > _FEW and unhealthy / (healthy + unhealthy) >= UNHEALTHY_ZONE_THRESHOLD:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


@dataclass(frozen=True)
class Disruption:
    """The state of each zone, and its number of nodes (`sizes`)."""

    states: Mapping[Zone, ZoneState] = field(default_factory=dict)
    sizes: Mapping[Zone, int] = field(default_factory=dict)

    @property
    def is_total(self) -> bool:
        """Whether no node of the cluster is healthy. No pod is evicted then."""
        return bool(self.states) and set(self.states.values()) == {ZoneState.FULL_DISRUPTION}

    def eviction_rate(self, zone: Zone) -> float:
        """Return how many nodes of the zone may get a NoExecute taint per second."""
        if self.is_total:
            return 0.0
        if self.states.get(zone) is not ZoneState.PARTIAL_DISRUPTION:
            return EVICTION_RATE  # also for a zone without healthy nodes while other zones have some
        return SECONDARY_EVICTION_RATE if self.sizes[zone] > LARGE_CLUSTER_SIZE else 0.0


def find_disruption(nodes: Iterable[tuple[Node, bool]]) -> Disruption:
    """Return the disruption for pairs of a node and whether it is healthy."""
    healthy: dict[Zone, int] = {}
    sizes: dict[Zone, int] = {}
    for node, is_healthy in nodes:
        if _EXCLUDED_LABEL not in node.metadata.labels:
            zone = zone_of(node)
            sizes[zone] = sizes.get(zone, 0) + 1
            healthy[zone] = healthy.get(zone, 0) + is_healthy
    states = {zone: zone_state(healthy[zone], size - healthy[zone]) for zone, size in sizes.items()}
    return Disruption(states, sizes)


class EvictionRateLimiter:
    """Rate limiter of evictions: one node of a zone after the other. Times are in seconds on a monotonic clock."""

    def __init__(self) -> None:
        self._last: dict[Zone, tuple[str, float]] = {}

    def take(self, zone: Zone, name: str, rate: float, now: float) -> float:
        """Return 0 and start a new interval if the node may be tainted now; else the wait in seconds, or inf."""
        if rate <= 0:
            return float("inf")
        last, taken = self._last.get(zone, ("", float("-inf")))
        wait = taken + 1 / rate - now
        if wait > 0 and last != name:  # a node may retry at once: its taint could not be written
            return wait
        self._last[zone] = name, now
        return 0.0
