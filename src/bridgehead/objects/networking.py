"""networking.k8s.io/v1 ServiceCIDR.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from .meta import Object, Part


class ServiceCIDRSpec(Part, frozen=True, kw_only=True):
    cidrs: tuple[str, ...] = ()


class ServiceCIDR(Object, frozen=True, kw_only=True):
    spec: ServiceCIDRSpec = ServiceCIDRSpec()
