"""Fields of pod specs whose feature gates are off by default: an API server stores objects without them.

Pure: no I/O, no clock, no randomness. Source: Kubernetes' `dropDisabledFields` (`pkg/api/pod`), and the feature gates
ClusterTrustBundleProjection, ContainerStopSignals, DRANodeAllocatableResources, GenericWorkload, ImageVolumeWithDigest
and PodCertificateRequest (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridgehead.apiserver.resource import JsonObject

from .pod_containers import visit_containers

_PROJECTED_SOURCES: Final = ("clusterTrustBundle", "podCertificate")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def drop_disabled_fields(spec: JsonObject, old: JsonObject | None = None) -> None:
    """Remove the fields from the spec of a pod or of a template. A source of a projected volume remains, empty.

    Fields that the stored spec, `old`, has stay: it may be of an earlier version.
    """
    kept = set(_disabled_fields(old)) if old else set[str]()
    if "schedulingGroup" not in kept:
        spec.pop("schedulingGroup", None)
    for source in _projected_sources(spec):
        for name in _PROJECTED_SOURCES:
            if name not in kept:
                source.pop(name, None)
    for _, container in visit_containers("", spec):
        lifecycle = container.get("lifecycle", {})
        if "stopSignal" in lifecycle and "stopSignal" not in kept:
            del lifecycle["stopSignal"]
            if not lifecycle:
                del container["lifecycle"]


def _disabled_fields(spec: JsonObject) -> Iterator[str]:
    """Yield the names of such fields that a spec has."""
    if "schedulingGroup" in spec:
        yield "schedulingGroup"
    for source in _projected_sources(spec):
        yield from (name for name in _PROJECTED_SOURCES if name in source)
    if any("stopSignal" in container.get("lifecycle", {}) for _, container in visit_containers("", spec)):
        yield "stopSignal"


def _projected_sources(spec: JsonObject) -> Iterator[JsonObject]:
    for volume in spec.get("volumes", ()):
        yield from volume.get("projected", {}).get("sources", ())


def drop_disabled_status_fields(status: JsonObject) -> None:
    """Remove the fields from the status of a pod."""
    status.pop("nodeAllocatableResourceClaimStatuses", None)
    for kind in _STATUSES:
        for one in status.get(kind, ()):
            for mount in one.get("volumeMounts", ()):
                mount.pop("volumeStatus", None)
