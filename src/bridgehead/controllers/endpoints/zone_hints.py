"""Which zone each endpoint is for where a Service asks for `topology-mode: Auto`: shares as the zones have CPUs. Pure.

Called by the endpoint slice controller after it has planned the slices; `topology` knows the shares. Zone hints count
for proxies only when every ready endpoint has one (`proxy/endpoints.py`), so a family has hints for all of them or for
none: none when a zone would have too few endpoints for its share by more than `OVERLOAD`. Slices that nothing else
changes are left as they are while their hints do no harm.
Source: Kubernetes "Topology Aware Routing" (KEP-2433), `k8s.io/endpointslice/topologycache`, v1.32 and later.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from bridgehead.objects.core import Service
from bridgehead.objects.discovery import Endpoint, EndpointHints, EndpointSlice, ForZone

from .slice_plan import Group, SlicePlan, Template, identity_of

MODE_ANNOTATION: Final = "service.kubernetes.io/topology-mode"
OLDER_ANNOTATION: Final = "service.kubernetes.io/topology-aware-hints"  # goes first where both are
OVERLOAD: Final = 0.2  # how much more than its share an endpoint may get

_NO_NODE_INFO = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
_NO_ZONE = "One or more endpoints do not have a zone specified"
_TOO_FEW = "Insufficient number of endpoints"
_OVERLOADED = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"

# How much of the cluster's CPU each zone has; together 1. Empty: it cannot be told, or there is only one zone.
Shares = Mapping[str, float]
Zones = Mapping[str, int]  # how many endpoints are for each


class Verdict(NamedTuple):
    """What came of one family: how many endpoints are for which zone; or None, and the `problem` in words."""

    zones: Zones | None = None
    problem: str = ""


def is_wanted(service: Service) -> bool:
    """Whether the Service asks for hints; then its `trafficDistribution` does not count."""
    annotations = service.metadata.annotations
    return annotations.get(OLDER_ANNOTATION, annotations.get(MODE_ANNOTATION)) in ("Auto", "auto")


def is_overloaded(zones: Zones, shares: Shares) -> bool:
    """Whether hints that were given for other shares leave a zone with too few endpoints now."""
    if not zones:
        return False
    total = sum(zones.values())
    return not shares or any(
        zone not in zones or zones[zone] < _minimum(share * total) for zone, share in shares.items()
    )


def carry_over(
    wanted: Mapping[Group, Sequence[Endpoint]], existing: Iterable[EndpointSlice]
) -> dict[Group, list[Endpoint]]:
    """The wanted endpoints with the hints that are written of them, so that these are no reason to write a slice."""
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
) -> tuple[SlicePlan, dict[str, Verdict]]:
    """The plan with hints, and what came of it for each address type.

    `plan` was made of what `carry_over` returned. `existing` are the slices from which it starts; those that it leaves
    alone may have to be written, too.
    """
    touched = {item.metadata.name for item in (*plan.update, *plan.delete)}
    unchanged = [item for item in existing if item.metadata.name not in touched]
    create: list[EndpointSlice] = []
    update: list[EndpointSlice] = []
    verdicts = {}
    for family in sorted({item.address_type for item in (*plan.create, *plan.update, *unchanged)}):
        created, updated, kept = (
            [item for item in items if item.address_type == family] for items in (plan.create, plan.update, unchanged)
        )
        zones, verdicts[family], stale = _choose([*created, *updated], kept, shares)
        hinted = _with_hints([*created, *updated, *stale], zones)
        create += hinted[: len(created)]
        update += hinted[len(created) : len(created) + len(updated)]
        for before, item in zip(stale, hinted[len(created) + len(updated) :], strict=True):
            if item != before:
                update.append(msgspec.structs.replace(item, metadata=template.metadata(before)))
    return SlicePlan(tuple(create), tuple(update), plan.delete), verdicts


# --- One family -----------------------------------------------------------------------------------------


def _choose(
    written: Sequence[EndpointSlice], unchanged: Sequence[EndpointSlice], shares: Shares
) -> tuple[Sequence[str] | None, Verdict, list[EndpointSlice]]:
    """The zone of each ready endpoint in order, None for no hints; what came of it; the slices that must be written.

    The order is that of `written` and, after these, of the slices that must be.
    """
    limits, problem = _limits(shares, _count(written) + _count(unchanged))
    if problem:
        return None, Verdict(problem=problem), list(unchanged)
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
        return None, Verdict(problem=_NO_ZONE), list(unchanged)
    zones.update(own)
    chosen = _redistribute(own, *_givers_and_receivers(limits, zones))
    zones.subtract(own)
    zones.update(chosen)
    return chosen, Verdict(zones=+zones), stale


class _Limit(NamedTuple):
    """How many endpoints a zone is to have."""

    desired: float
    maximum: int


def _limits(shares: Shares, endpoints: int) -> tuple[dict[str, _Limit], str]:
    """Of each zone; or none, and why not."""
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
    """The fewest endpoints that bear the load of so many."""
    return math.ceil(desired * (1 / (1 + OVERLOAD)))


def _usable_hints(item: EndpointSlice, zones: Zones, limits: Mapping[str, _Limit]) -> Counter[str] | None:
    """How many endpoints of the slice are hinted to each zone; None when they cannot stay so."""
    found: Counter[str] = Counter()
    for endpoint in _ready([item]):
        if endpoint.hints is None or not endpoint.hints.for_zones or endpoint.hints.for_nodes:
            return None
        for zone in endpoint.hints.for_zones:
            # In a zone without a share it would get the same again: there may be nodes that are not counted.
            if zone.name not in limits and zone.name != endpoint.zone:
                return None
            found[zone.name] += 1
    if any(number + zones[zone] > limits[zone].maximum for zone, number in found.items() if zone in limits):
        return None
    return found


def _givers_and_receivers(limits: Mapping[str, _Limit], zones: Zones) -> tuple[Counter[str], Counter[str]]:
    """How many endpoints each zone has too many or too few; as many of the one as of the other."""
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
    """Each endpoint's zone, or that to which its own gives it."""
    waiting = sorted(receiving.elements(), reverse=True)
    chosen = []
    for zone in own:
        if giving[zone] and waiting:
            giving[zone] -= 1
            zone = waiting.pop()
        chosen.append(zone)
    return chosen


def _with_hints(items: Iterable[EndpointSlice], zones: Iterable[str] | None) -> list[EndpointSlice]:
    """The slices with the next of `zones` for each ready endpoint; without hints when it is None."""
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
    return [endpoint for item in items for endpoint in item.endpoints if endpoint.conditions.ready]


def _count(items: Iterable[EndpointSlice]) -> int:
    return len(_ready(items))
