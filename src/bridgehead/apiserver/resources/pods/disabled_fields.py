"""Fields of pod specs whose feature gates are off by default: an API server stores objects without them.

Pure: no I/O, no clock, no randomness. Source: Kubernetes' `dropDisabledFields` (`pkg/api/pod`), and the feature gates
ClusterTrustBundleProjection, ContainerStopSignals, DRANodeAllocatableResources, GenericWorkload, ImageVolumeWithDigest
and PodCertificateRequest (v1.36).
"""

from __future__ import annotations

from typing import Final

from bridgehead.apiserver.resource import JsonObject

from .pod_containers import visit_containers

_PROJECTED_SOURCES: Final = ("clusterTrustBundle", "podCertificate")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def drop_disabled_fields(spec: JsonObject) -> None:
    """Remove the fields from the spec of a pod or of a template. A source of a projected volume remains, empty."""
    for volume in spec.get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", ()):
            for name in _PROJECTED_SOURCES:
                source.pop(name, None)
    spec.pop("schedulingGroup", None)
    for _, container in visit_containers("", spec):
        if "stopSignal" in container.get("lifecycle", {}):
            del container["lifecycle"]["stopSignal"]
            if not container["lifecycle"]:
                del container["lifecycle"]


def drop_disabled_status_fields(status: JsonObject) -> None:
    """Remove the fields from the status of a pod."""
    status.pop("nodeAllocatableResourceClaimStatuses", None)
    for kind in _STATUSES:
        for one in status.get(kind, ()):
            for mount in one.get("volumeMounts", ()):
                mount.pop("volumeStatus", None)
