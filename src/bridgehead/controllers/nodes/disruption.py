"""How much of the cluster has failed at once, and how fast pods may therefore be evicted.

When most nodes of a zone seem to have failed, the network or the control plane is the likelier cause. Source:
kube-controller-manager's node-lifecycle-controller (`ComputeZoneState`, `handleDisruption`, `ReducedQPSFunc`) with its
default settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from bridgehead.objects.core import ZONE_LABEL, Node

UNHEALTHY_ZONE_THRESHOLD = 0.55
LARGE_CLUSTER_SIZE = 50
EVICTION_RATE = 0.1  # nodes per second and zone
SECONDARY_EVICTION_RATE = 0.01  # the same, in a large zone that is partially disrupted

_REGION_LABEL = "topology.kubernetes.io/region"
_EXCLUDED_LABEL = "node.kubernetes.io/exclude-disruption"
_FEW = 2  # so many nodes may fail without being taken for a disruption

Zone = tuple[str, str]


class ZoneState(Enum):
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


def zone_of(node: Node) -> Zone:
    """(region, zone); nodes without labels are one zone."""
    return node.metadata.labels.get(_REGION_LABEL, ""), node.metadata.labels.get(ZONE_LABEL, "")


def zone_state(healthy: int, unhealthy: int) -> ZoneState:
    if unhealthy and not healthy:
        return ZoneState.FULL_DISRUPTION
    if unhealthy > _FEW and unhealthy / (healthy + unhealthy) >= UNHEALTHY_ZONE_THRESHOLD:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


@dataclass(frozen=True)
class Disruption:
    """The state of each zone; `sizes` are numbers of nodes."""

    states: Mapping[Zone, ZoneState] = field(default_factory=dict)
    sizes: Mapping[Zone, int] = field(default_factory=dict)

    @property
    def is_total(self) -> bool:
        """Whether no node of the cluster is healthy. Nobody is evicted then, at any rate."""
        return bool(self.states) and set(self.states.values()) == {ZoneState.FULL_DISRUPTION}

    def eviction_rate(self, zone: Zone) -> float:
        """How many nodes of the zone per second may get a NoExecute taint."""
        if self.is_total:
            return 0.0
        if self.states.get(zone) is not ZoneState.PARTIAL_DISRUPTION:
            return EVICTION_RATE  # also of a zone that failed as a whole while others are well
        return SECONDARY_EVICTION_RATE if self.sizes[zone] > LARGE_CLUSTER_SIZE else 0.0


def find_disruption(nodes: Iterable[tuple[Node, bool]]) -> Disruption:
    """`nodes` are given with whether they are healthy."""
    healthy: dict[Zone, int] = {}
    sizes: dict[Zone, int] = {}
    for node, is_healthy in nodes:
        if _EXCLUDED_LABEL not in node.metadata.labels:
            zone = zone_of(node)
            sizes[zone] = sizes.get(zone, 0) + 1
            healthy[zone] = healthy.get(zone, 0) + is_healthy
    states = {zone: zone_state(healthy[zone], size - healthy[zone]) for zone, size in sizes.items()}
    return Disruption(states, sizes)


class EvictionPace:
    """One node of a zone after the other. Times are seconds on any clock that only goes forward."""

    def __init__(self) -> None:
        self._last: dict[Zone, tuple[str, float]] = {}

    def take(self, zone: Zone, name: str, rate: float, now: float) -> float:
        """0 when the node may be tainted now, which makes the zone's next one wait; else seconds to wait, or inf."""
        if rate <= 0:
            return float("inf")
        last, taken = self._last.get(zone, ("", float("-inf")))
        wait = taken + 1 / rate - now
        if wait > 0 and last != name:  # the same node again: its taint could not be written
            return wait
        self._last[zone] = name, now
        return 0.0
