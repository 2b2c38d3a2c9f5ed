"""Defaults of a Service, and changes of its dependent fields in updates.

If a client leaves out values that the server chose, the Service keeps them. If a client changes the type and does not
touch fields of the old type, these fields are dropped. Fields that the new type does not allow stay, and
`service_validation` refuses them. Called by `services.ServiceStrategy`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `SetDefaults_Service`, `pkg/registry/core/service`.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.core import DEFAULT_AFFINITY_SECONDS

from .service_types import is_reachable_from_outside, needs_cluster_ip, needs_health_check_port, needs_node_ports

# Fields that the API omits when they are empty.
_EMPTY_IS_ABSENT = (
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalName",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "ipFamilies",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "ports",
    "selector",
)


def set_defaults(service: JsonObject) -> None:
    """Set the defaults that do not depend on an allocation."""
    spec: JsonObject = service.setdefault("spec", {})
    for name in _EMPTY_IS_ABSENT:
        if not spec.get(name, True):
            del spec[name]
    spec["type"] = spec.get("type") or "ClusterIP"
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client_ip = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client_ip.setdefault("timeoutSeconds", DEFAULT_AFFINITY_SECONDS)
    for port in spec.get("ports", ()):
        _set_port_defaults(port)
    if spec["type"] in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if is_reachable_from_outside(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    load_balancer = service.setdefault("status", {}).setdefault("loadBalancer", {})
    for ingress in load_balancer.get("ingress", ()):
        if ingress.get("ip"):
            ingress.setdefault("ipMode", "VIP")


def _set_port_defaults(port: JsonObject) -> None:
    port["protocol"] = port.get("protocol") or "TCP"
    if port.get("targetPort") in (None, 0, "") and "port" in port:
        port["targetPort"] = port["port"]
    for name in ("nodePort", "name"):
        if not port.get(name, True):
            del port[name]


def keep_allocated(spec: JsonObject, old: JsonObject) -> None:
    """Copy allocated values from `old` that the client left out."""
    if needs_cluster_ip(old) and needs_cluster_ip(spec):
        for name in ("clusterIP", "clusterIPs"):
            if name not in spec and name in old:
                spec[name] = _copy(old[name])
    if needs_node_ports(old) and needs_node_ports(spec):
        _keep_node_ports(spec.get("ports", ()), old.get("ports", ()))
    if needs_health_check_port(old) and needs_health_check_port(spec) and "healthCheckNodePort" in old:
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])


def _keep_node_ports(ports: list[JsonObject], old_ports: list[JsonObject]) -> None:
    # A port is identified by its name and keeps its node port when its other fields change, unless the client has given
    # this node port to another port.
    taken = {port["nodePort"] for port in ports if "nodePort" in port}
    known = {port.get("name", ""): port["nodePort"] for port in old_ports if "nodePort" in port}
    for port in ports:
        kept = known.get(port.get("name", ""))
        if "nodePort" not in port and kept is not None and kept not in taken:
            port["nodePort"] = kept


def link_cluster_ips(spec: JsonObject, old: JsonObject | None) -> None:
    """Synchronize `clusterIP` and `clusterIPs` when a client wrote only one of them."""
    one, many = spec.get("clusterIP"), spec.get("clusterIPs")
    if old is None:
        if one and not many:
            spec["clusterIPs"] = [one]
        return
    old_one, old_many = old.get("clusterIP"), old.get("clusterIPs")
    if old_many and not many and one == old_one:
        many = spec["clusterIPs"] = _copy(old_many)
    if one == old_one or many != old_many:
        return
    if one:
        spec["clusterIPs"] = [one]
    else:
        spec.pop("clusterIPs", None)


def drop_for_type(spec: JsonObject, old: JsonObject) -> None:
    """Remove fields that the new type does not use, if the client did not change them."""
    if needs_cluster_ip(old) and not needs_cluster_ip(spec):
        _drop_same(spec, old, "clusterIP", "clusterIPs")
        _drop_same(spec, old, "ipFamilies")
        _drop_same(spec, old, "ipFamilyPolicy")
    if needs_node_ports(old) and not needs_node_ports(spec):
        ports = spec.get("ports", ())
        if {p.get("nodePort", 0) for p in ports} <= {p.get("nodePort", 0) for p in old.get("ports", ())} | {0}:
            for port in ports:
                port.pop("nodePort", None)
    if needs_health_check_port(old) and not needs_health_check_port(spec):
        _drop_same(spec, old, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_same(spec, old, "allocateLoadBalancerNodePorts")
        _drop_same(spec, old, "loadBalancerClass")
    if is_reachable_from_outside(old) and not is_reachable_from_outside(spec):
        _drop_same(spec, old, "externalTrafficPolicy")


def _drop_same(spec: JsonObject, old: JsonObject, *names: str) -> None:
    """Remove `names` if all of them are unchanged."""
    if all(spec.get(name) == old.get(name) for name in names):
        for name in names:
            spec.pop(name, None)


def _copy(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value
