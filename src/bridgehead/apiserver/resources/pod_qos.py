"""A pod's quality-of-service class: who goes first when a node runs out (source: Kubernetes "Pod QoS Classes")."""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .pod_defaults import containers_of
from .quantities import amount_of

_COMPUTE = ("cpu", "memory")


def qos_class(spec: JsonObject) -> str:
    """`Guaranteed` when every container is limited to what it requests, `BestEffort` when none says anything."""
    says_anything = False
    is_guaranteed = True
    for container in containers_of(spec):
        resources = container.get("resources", {})
        requests, limits = _amounts(resources.get("requests", {})), _amounts(resources.get("limits", {}))
        says_anything = says_anything or bool(requests or limits)
        is_guaranteed = is_guaranteed and len(limits) == len(_COMPUTE) and {**limits, **requests} == limits
    if not says_anything:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _amounts(quantities: JsonObject) -> JsonObject:
    parsed = {name: amount_of(quantities[name]) for name in _COMPUTE if name in quantities}
    return {name: amount for name, amount in parsed.items() if amount}
