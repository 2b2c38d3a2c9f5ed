"""Determine whether the kernel of every node has a Service's present state. `waiting` uses it.

A change takes three steps: the Service's pods change (or its Endpoints), its EndpointSlices are written, and every
node's proxy programs them. Proxies publish the third step (`objects/progress.py`).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridgehead.controllers.endpoints import mirroring, slice_endpoints
from bridgehead.controllers.endpoints.slice_plan import sort_ports
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import PROXY_NAME_LABEL, Endpoints, Node, Pod, Service
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL, Endpoint, EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import Progress, Versions, read_progress


class Lacking(NamedTuple):
    """A node whose kernel lacks the state, and the reason as text."""

    node: str
    why: str

    def __str__(self) -> str:
        return f"{self.node} ({self.why})"


def why_not_proxied(service: Service) -> str:
    """Return why no node programs the Service; "": nodes do."""
    if service.spec.type == "ExternalName":
        return "it is only a name for another one"
    if service.spec.cluster_ip == "None":
        return "it is headless"
    if proxy := service.metadata.labels.get(PROXY_NAME_LABEL):
        return f"it is left to the proxy {proxy}"
    return ""


def count_pending(
    service: Service,
    pods: Iterable[Pod],
    endpoints: Endpoints | None,
    slices: Iterable[EndpointSlice],
    nodes: Iterable[Node],
) -> int:
    """Return the number of endpoints that are to be added to or removed from the Service's slices.

    The expected endpoints come from its pods or, without a selector, from `endpoints`; slices of other managers count
    as they are.
    """
    if service.spec.selector:
        known = {node.metadata.name: node for node in nodes}
        manager, groups = (
            slice_endpoints.MANAGER,
            slice_endpoints.wanted_endpoints(service, pods, known.get),
        )
    elif endpoints is not None and mirroring.is_mirrored(endpoints, service):
        manager, groups = mirroring.MANAGER, mirroring.mirror_subsets(endpoints).wanted
    else:
        return 0
    managed = [
        (item, endpoint)
        for item in slices
        if item.metadata.labels.get(MANAGED_BY_LABEL) == manager
        for endpoint in item.endpoints
    ]
    # Controllers before Kubernetes 1.22 write no `serving`, and no endpoints that terminate.
    has_serving = not managed or any(endpoint.conditions.serving is not None for _, endpoint in managed)
    written = {
        _programmed_state(item.address_type, sort_ports(item.ports or ()), endpoint, has_serving)
        for item, endpoint in managed
    }
    wanted = {
        _programmed_state(group.address_type, group.ports, endpoint, has_serving)
        for group, found in groups.items()
        for endpoint in found
        if has_serving or not endpoint.conditions.is_terminating
    }
    return len(wanted ^ written)


def _programmed_state(family: str, ports: object, endpoint: Endpoint, has_serving: bool) -> object:
    """Return the properties of an endpoint that proxies use, without its node, zone and hints."""
    conditions = endpoint.conditions
    return (
        family,
        ports,
        endpoint.addresses,
        endpoint.pod_uid,
        conditions.is_ready,
        *((conditions.is_serving, conditions.is_terminating) if has_serving else ()),
    )


def count_ready(slices: Iterable[EndpointSlice]) -> int:
    """Return the number of ready endpoints."""
    return len({e.addresses for item in slices for e in item.endpoints if e.conditions.is_ready})


def find_lacking(
    nodes: Iterable[Node], leases: Iterable[Lease], wanted: Versions, now: float, service: ObjectKey
) -> list[Lacking]:
    """Return the ready nodes whose proxies have not published `wanted`, or refuse the Service.

    `now` is in epoch seconds.
    """
    known = {progress.node: progress for lease in leases if (progress := read_progress(lease)) is not None}
    names = sorted(node.metadata.name for node in nodes if node.is_ready)
    found = ((name, _why_lacking(known.get(name), wanted, now, service)) for name in names)
    return [Lacking(name, why) for name, why in found if why]


def _why_lacking(progress: Progress | None, wanted: Versions, now: float, service: ObjectKey) -> str:
    if progress is None:
        return "its proxy publishes nothing"
    if progress.expires <= now:
        return f"its proxy last published {now - progress.renewed:.0f} s ago"
    if str(service) in progress.refused:
        return "its kernel refuses the Service's rules"
    lacks = progress.lacks(wanted)
    parts = []
    if lacks.services:
        parts.append(f"Services at {progress.programmed.services} of {wanted.services}")
    if lacks.slices:
        parts.append(f"EndpointSlices at {progress.programmed.slices} of {wanted.slices}")
    return ", ".join(parts)


def describe(lacking: Sequence[Lacking], most: int = 10) -> str:
    """Render `node2 (its proxy publishes nothing), node3 (...) and 4 others`."""
    text = ", ".join(map(str, lacking[:most]))
    return f"{text} and {len(lacking) - most} others" if len(lacking) > most else text
