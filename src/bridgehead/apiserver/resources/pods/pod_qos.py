"""The quality-of-service class of a pod, which orders evictions on a node under pressure.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Pod QoS Classes".
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of

from .pod_defaults import containers_of

_COMPUTE = ("cpu", "memory")


def qos_class(spec: JsonObject) -> str:
    """Return `Guaranteed` if every container's limits equal its requests, `BestEffort` if there are none of either.

    Resources of the pod as a whole count instead of those of its containers.
    """
    has_amounts = False
    is_guaranteed = True
    for container in [spec] if spec.get("resources") else containers_of(spec):
        resources = container.get("resources", {})
        requests, limits = _amounts(resources.get("requests", {})), _amounts(resources.get("limits", {}))
        has_amounts = has_amounts or bool(requests or limits)
        is_guaranteed = is_guaranteed and len(limits) == len(_COMPUTE) and {**limits, **requests} == limits
    if not has_amounts:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _amounts(quantities: JsonObject) -> JsonObject:
    parsed = {name: amount_of(quantities[name]) for name in _COMPUTE if name in quantities}
    return {name: amount for name, amount in parsed.items() if amount}
