"""Services for tables of allocations."""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.balancer.allocation import Decision
from bridgehead.objects.core import Service

_CLUSTER_IPS = {4: "10.96.0.1", 6: "fd00:96::1"}
SHORT = {
    "pool": "metallb.io/address-pool",
    "ips": "metallb.io/loadBalancerIPs",
    "share": "metallb.io/allow-shared-ip",
    "old_pool": "metallb.universe.tf/address-pool",
    "old_ips": "metallb.universe.tf/loadBalancerIPs",
    "old_share": "metallb.universe.tf/allow-shared-ip",
    "eip": "eip.openelb.kubesphere.io/v1alpha2",
    "eip_ip": "eip.openelb.kubesphere.io/v1alpha1",
    "openelb": "lb.kubesphere.io/v1alpha1",
}


def service(
    name: str,
    *,
    ns: str = "default",
    versions: tuple[int, ...] = (4,),
    policy: str | None = None,
    ports: tuple[str, ...] = ("TCP/80",),
    status: tuple[str, ...] = (),
    local: dict[str, str] | None = None,
    ip: str = "",
    labels: dict[str, str] | None = None,
    **annotations: str,
) -> Service:
    """Return a Service of type LoadBalancer. `local`: its selector, with externalTrafficPolicy Local."""
    spec: dict[str, Any] = {
        "type": "LoadBalancer",
        "clusterIPs": [_CLUSTER_IPS[version] for version in versions],
        "ports": [{"protocol": p.partition("/")[0], "port": int(p.partition("/")[2])} for p in ports],
        "externalTrafficPolicy": "Cluster" if local is None else "Local",
        "selector": local or {},
        "loadBalancerIP": ip,
    }
    if policy is not None:
        spec["ipFamilyPolicy"] = policy
    return msgspec.convert(
        {
            "metadata": {
                "namespace": ns,
                "name": name,
                "labels": labels or {},
                "annotations": {SHORT[short]: value for short, value in annotations.items()},
            },
            "spec": spec,
            "status": {"loadBalancer": {"ingress": [{"ip": address} for address in status]}},
        },
        Service,
    )


def with_status(found: Service, decision: Decision) -> Service:
    """Return the Service with the status that the decision gives it."""
    addresses = [] if decision.allocation is None else [str(address) for address in decision.allocation.addresses]
    data = msgspec.to_builtins(found)
    data["status"] = {"loadBalancer": {"ingress": [{"ip": address} for address in addresses]}}
    return msgspec.convert(data, Service)
