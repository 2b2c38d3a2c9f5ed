"""The parts of a Service that depend on its type.

A Service is a union with the discriminator `type`. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

HEADLESS = "None"


def needs_cluster_ip(spec: JsonObject) -> bool:
    return bool(spec.get("type") != "ExternalName")


def needs_node_ports(spec: JsonObject) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def needs_health_check_port(spec: JsonObject) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_reachable_from_outside(spec: JsonObject) -> bool:
    """Whether `externalTrafficPolicy` applies."""
    return needs_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def is_headless(spec: JsonObject) -> bool:
    return bool(spec.get("clusterIPs") == [HEADLESS])
