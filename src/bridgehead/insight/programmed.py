"""Whether a Service, as it is now, is in the kernel of every node (pure). Used by `waiting`.

Three things follow each other: the pods that the Service selects change (or the Endpoints that somebody wrote), its
EndpointSlices say so, every node's proxy programs them. The last is what proxies make known (`objects/progress.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridgehead.controllers.endpoints import endpointslices, mirroring
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import PROXY_NAME_LABEL, Endpoints, Node, Pod, Service
from bridgehead.objects.discovery import MANAGED_BY_LABEL, Endpoint, EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import Progress, Versions, read_progress


class Lacking(NamedTuple):
    """A node that does not have it yet, and why in words."""

    node: str
    why: str

    def __str__(self) -> str:
        return f"{self.node} ({self.why})"


def why_not_proxied(service: Service) -> str:
    """Why no node has to do anything for the Service; "" when they have to."""
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
    """How many endpoints are yet to be written into the Service's slices, or to be taken out.

    They come from its pods or, without a selector, from `endpoints` of its name; slices of others are as they are.
    """
    if service.spec.selector:
        known = {node.metadata.name: node for node in nodes}
        manager, groups = endpointslices.MANAGER, endpointslices.wanted_endpoints(service, pods, known.get)
    elif endpoints is not None and mirroring.is_mirrored(endpoints, service):
        manager, groups = mirroring.MANAGER, mirroring.mirror_subsets(endpoints).wanted
    else:
        return 0
    wanted = {
        _standing(group.address_type, group.ports, endpoint) for group, found in groups.items() for endpoint in found
    }
    written = {
        _standing(item.address_type, item.ports or (), endpoint)
        for item in slices
        if item.metadata.labels.get(MANAGED_BY_LABEL) == manager
        for endpoint in item.endpoints
    }
    return len(wanted ^ written)


def _standing(family: str, ports: object, endpoint: Endpoint) -> object:
    """All of an endpoint that a proxy goes by, but for its place and hints."""
    conditions = endpoint.conditions
    uid = endpoint.target_ref.uid if endpoint.target_ref is not None else ""
    return (
        family,
        ports,
        endpoint.addresses,
        uid,
        conditions.is_ready,
        conditions.serving is not False,
        conditions.terminating is True,
    )


def count_ready(slices: Iterable[EndpointSlice]) -> int:
    """The endpoints that get connections."""
    return len({e.addresses for item in slices for e in item.endpoints if e.conditions.is_ready})


def find_lacking(
    nodes: Iterable[Node], leases: Iterable[Lease], wanted: Versions, now: float, service: ObjectKey
) -> list[Lacking]:
    """The ready nodes whose proxies have not said that they programmed `wanted`, or only without the Service.

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
        return f"its proxy was last heard {now - progress.renewed:.0f} s ago"
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
    """`node2 (its proxy publishes nothing), node3 (...) and 4 others`"""
    text = ", ".join(map(str, lacking[:most]))
    return f"{text} and {len(lacking) - most} others" if len(lacking) > most else text
