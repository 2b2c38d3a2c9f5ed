"""Warnings about a Service: fields that are valid but have no effect. kubectl prints them.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/api/service/warnings.go`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .service_transitions import is_headless

_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


def warn_of_service(service: JsonObject) -> list[str]:
    """Return warnings about fields without effect."""
    spec = service.get("spec", {})
    warnings = []
    if _HINTS in service.get("metadata", {}).get("annotations", {}):
        warnings.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    if is_headless(spec):
        idle = [name for name in ("loadBalancerIP", "externalIPs") if spec.get(name)]
        warnings.extend(f"spec.{name} is ignored for headless services" for name in idle)
        if spec.get("sessionAffinity", "None") != "None":
            warnings.append("spec.SessionAffinity is ignored for headless services")
    if spec.get("type") == "ExternalName":
        if spec.get("externalIPs"):
            warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    elif spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return warnings
