"""Zone hints of Services with `topology-mode: Auto`: endpoints in proportion to the CPUs of each zone.

Called by the EndpointSlice controller after it has planned the slices, with the shares from `zone_cpus`. Proxies use
hints only when every ready endpoint has one (`proxy/backends.py`), so all ready endpoints of a family get hints or
none. They get none when the endpoints of a zone would be overloaded by more than `OVERLOAD`. Slices that need no other
change keep their hints while these overload no zone. Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Topology Aware Routing" (KEP-2433), `k8s.io/endpointslice/topologycache`, v1.32 and later.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import Endpoint, EndpointHints, EndpointSlice, ForZone

from .slice_plan import Group, SlicePlan, Template, identity_of

MODE_ANNOTATION: Final = "service.kubernetes.io/topology-mode"
OLDER_ANNOTATION: Final = "service.kubernetes.io/topology-aware-hints"  # takes precedence
OVERLOAD: Final = 0.2  # by this part an endpoint's load may exceed the average

_NO_NODE_INFO = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
_NO_ZONE = "One or more endpoints do not have a zone specified"
_TOO_FEW = "Insufficient number of endpoints"
_OVERLOADED = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"

# Share of each zone in the cluster's CPUs, 1 in total. Empty: unknown, or only one zone.
Shares = Mapping[str, float]
Zones = Mapping[str, int]  # number of endpoints for each zone


class HintsResult(NamedTuple):
    """Result for one address family: the number of endpoints for each zone, or None and the problem."""

    zones: Zones | None = None
    problem: str = ""


def is_wanted(service: Service) -> bool:
    """Whether the Service asks for proportional hints, which override its `trafficDistribution`."""
    annotations = service.metadata.annotations
    return annotations.get(OLDER_ANNOTATION, annotations.get(MODE_ANNOTATION)) in ("Auto", "auto")


def is_overloaded(zones: Zones, shares: Shares) -> bool:
    """Whether hints that were computed for other shares leave a zone with too few endpoints now."""
    if not zones:
        return False
    total = sum(zones.values())
    return not shares or any(
        zone not in zones or zones[zone] < _minimum(share * total) for zone, share in shares.items()
    )


def carry_over(
    wanted: Mapping[Group, Sequence[Endpoint]], existing: Iterable[EndpointSlice]
) -> dict[Group, list[Endpoint]]:
    """Return the wanted endpoints with the existing hints, so that no slice is written for hints alone."""
    written = {
        (item.address_type, identity_of(endpoint)): endpoint.hints for item in existing for endpoint in item.endpoints
    }
    return {
        group: [
            msgspec.structs.replace(endpoint, hints=written.get((group.address_type, identity_of(endpoint))))
            for endpoint in endpoints
        ]
        for group, endpoints in wanted.items()
    }


def plan_hints(
    plan: SlicePlan, existing: Iterable[EndpointSlice], template: Template, shares: Shares
) -> tuple[SlicePlan, dict[str, HintsResult]]:
    """Return the plan with hints, and the result for each address type.

    `plan` is based on the result of `carry_over` and on the slices in `existing`. Slices that `plan` does not change
    may have to be written for new hints.
    """
    changed = {item.metadata.name for item in (*plan.update, *plan.delete)}
    unchanged = [item for item in existing if item.metadata.name not in changed]
    create: list[EndpointSlice] = []
    update: list[EndpointSlice] = []
    results = {}
    for family in sorted({item.address_type for item in (*plan.create, *plan.update, *unchanged)}):
        created, updated, kept = (
            [item for item in items if item.address_type == family] for items in (plan.create, plan.update, unchanged)
        )
        zones, results[family], stale = _choose([*created, *updated], kept, shares)
        hinted = _with_hints([*created, *updated, *stale], zones)
        create += hinted[: len(created)]
        update += hinted[len(created) : len(created) + len(updated)]
        for before, item in zip(stale, hinted[len(created) + len(updated) :], strict=True):
            if item != before:
                update.append(msgspec.structs.replace(item, metadata=template.metadata(before)))
    return SlicePlan(tuple(create), tuple(update), plan.delete), results


# --- One family -----------------------------------------------------------------------------------------


def _choose(
    written: Sequence[EndpointSlice], unchanged: Sequence[EndpointSlice], shares: Shares
) -> tuple[Sequence[str] | None, HintsResult, list[EndpointSlice]]:
    """Choose zones. Return the zone of each ready endpoint, None for no hints; the result; unchanged slices to write.

    Zones are in the order of the endpoints in `written`, followed by those in the unchanged slices to write.
    """
    limits, problem = _limits(shares, _count(written) + _count(unchanged))
    if problem:
        return None, HintsResult(problem=problem), list(unchanged)
    zones: Counter[str] = Counter()
    stale = []
    for item in unchanged:
        found = _usable_hints(item, zones, limits)
        if found is None:
            stale.append(item)
        else:
            zones.update(found)
    own = [endpoint.zone or "" for endpoint in _ready((*written, *stale))]
    if not all(own):
        return None, HintsResult(problem=_NO_ZONE), list(unchanged)
    zones.update(own)
    chosen = _redistribute(own, *_givers_and_receivers(limits, zones))
    zones.subtract(own)
    zones.update(chosen)
    return chosen, HintsResult(zones=+zones), stale


class _Limit(NamedTuple):
    """Number of endpoints for a zone: in proportion to its CPUs, and at most."""

    desired: float
    maximum: int


def _limits(shares: Shares, endpoints: int) -> tuple[dict[str, _Limit], str]:
    """Return the limits of each zone, or none and the problem."""
    if not shares:
        return {}, _NO_NODE_INFO
    counts = f"({endpoints} endpoints, {len(shares)} zones)"
    if len(shares) > endpoints:
        return {}, f"{_TOO_FEW} {counts}"
    minima = {zone: _minimum(share * endpoints) for zone, share in shares.items()}
    spare = endpoints - sum(minima.values())
    if spare < 0:
        return {}, f"{_OVERLOADED} {counts}"
    return {
        zone: _Limit(max(share * endpoints, minima[zone]), minima[zone] + spare) for zone, share in shares.items()
    }, ""


def _minimum(desired: float) -> int:
    """Return the smallest number of endpoints that can carry the load of `desired` ones."""
    return math.ceil(desired * (1 / (1 + OVERLOAD)))


def _usable_hints(item: EndpointSlice, zones: Zones, limits: Mapping[str, _Limit]) -> Counter[str] | None:
    """Count the slice's endpoints hinted to each zone; None when these hints must change."""
    found: Counter[str] = Counter()
    for endpoint in _ready([item]):
        if not endpoint.hinted_zones or endpoint.hinted_nodes:
            return None
        for zone in endpoint.hinted_zones:
            # An endpoint in a zone without a share keeps its own zone: some nodes do not count.
            if zone not in limits and zone != endpoint.zone:
                return None
            found[zone] += 1
    if any(number + zones[zone] > limits[zone].maximum for zone, number in found.items() if zone in limits):
        return None
    return found


def _givers_and_receivers(limits: Mapping[str, _Limit], zones: Zones) -> tuple[Counter[str], Counter[str]]:
    """Return how many endpoints each zone gives away, and how many each receives; the totals are equal."""
    surplus = {zone: zones[zone] - limit.desired for zone, limit in sorted(limits.items())}
    givers = {zone: number for zone, number in surplus.items() if number > 0}
    receivers = {zone: -number for zone, number in surplus.items() if number < 0}
    giving: Counter[str] = Counter()
    receiving: Counter[str] = Counter()
    while givers and receivers:
        giver, receiver = max(givers, key=givers.__getitem__), max(receivers, key=receivers.__getitem__)
        most = givers[giver], receivers[receiver]
        if min(most) < 0.5 or max(most) < 1:
            break
        giving[giver] += 1
        givers[giver] -= 1
        receiving[receiver] += 1
        receivers[receiver] -= 1
    return giving, receiving


def _redistribute(own: Iterable[str], giving: Counter[str], receiving: Counter[str]) -> list[str]:
    """Return the zone of each endpoint: its own, or the one that receives the endpoint."""
    waiting = sorted(receiving.elements(), reverse=True)
    chosen = []
    for zone in own:
        if giving[zone] and waiting:
            giving[zone] -= 1
            zone = waiting.pop()
        chosen.append(zone)
    return chosen


def _with_hints(items: Iterable[EndpointSlice], zones: Iterable[str] | None) -> list[EndpointSlice]:
    """Return the slices with the next of `zones` for each ready endpoint, without hints for None."""
    rest = iter(zones or ())
    found = []
    for item in items:
        endpoints = []
        for endpoint in item.endpoints:
            hints = None
            if zones is not None and endpoint.conditions.ready:
                hints = EndpointHints(for_zones=(ForZone(name=next(rest)),))
            endpoints.append(msgspec.structs.replace(endpoint, hints=hints))
        found.append(msgspec.structs.replace(item, endpoints=tuple(endpoints)))
    return found


def _ready(items: Iterable[EndpointSlice]) -> list[Endpoint]:
    # As in the topology cache of Kubernetes, an endpoint with unknown readiness does not count.
    return [endpoint for item in items for endpoint in item.endpoints if endpoint.conditions.ready]


def _count(items: Iterable[EndpointSlice]) -> int:
    return len(_ready(items))
