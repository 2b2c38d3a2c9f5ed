"""Fields of pod specs whose feature gates are off by default: an API server stores objects without them.

Pure: no I/O, no clock, no randomness. Source: Kubernetes' `dropDisabledFields` (`pkg/api/pod`), and the feature gates
ClusterTrustBundleProjection and PodCertificateRequest (v1.36).
"""

from __future__ import annotations

from typing import Final

from bridgehead.apiserver.resource import JsonObject

_PROJECTED_SOURCES: Final = ("clusterTrustBundle", "podCertificate")


def drop_disabled_fields(spec: JsonObject) -> None:
    """Remove the fields from the spec of a pod or of a template. A source of a projected volume remains, empty."""
    for volume in spec.get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", ()):
            for name in _PROJECTED_SOURCES:
                source.pop(name, None)
