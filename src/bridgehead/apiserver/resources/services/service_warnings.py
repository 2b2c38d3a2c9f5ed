"""Warnings about a Service: fields that are deprecated or have no effect, unusual forms of addresses.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/api/service/warnings.go`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import is_cidr, warn_of_cidr, warn_of_ip

from .service_types import is_headless

_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"


def warn_of_service(service: JsonObject) -> list[str]:
    """Return warnings, which kubectl prints."""
    spec = service.get("spec", {})
    warnings: list[str] = []
    if _HINTS in service.get("metadata", {}).get("annotations", {}):
        warnings.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    is_external_name = spec.get("type") == "ExternalName"
    if is_headless(spec):
        idle = [name for name in ("loadBalancerIP", "externalIPs") if spec.get(name)]
        warnings.extend(f"spec.{name} is ignored for headless services" for name in idle)
        if spec.get("sessionAffinity", "None") != "None":
            warnings.append("spec.SessionAffinity is ignored for headless services")
    elif not is_external_name:
        for index, ip in enumerate(spec.get("clusterIPs", ())):
            warnings += warn_of_ip(f"spec.clusterIPs[{index}]", ip)
    for index, ip in enumerate(spec.get("externalIPs", ())):
        warnings += warn_of_ip(f"spec.externalIPs[{index}]", ip)
    if spec.get("externalIPs") and not is_headless(spec) and not is_external_name:
        warnings.append("spec.externalIPs is deprecated")
    if spec.get("loadBalancerIP"):
        warnings += warn_of_ip("spec.loadBalancerIP", spec["loadBalancerIP"])
    for index, cidr in enumerate(spec.get("loadBalancerSourceRanges", ())):
        if is_cidr(cidr.strip()):
            warnings += warn_of_cidr(f"spec.loadBalancerSourceRanges[{index}]", cidr.strip())
    if is_external_name:
        if spec.get("externalIPs"):
            warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    elif spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings
