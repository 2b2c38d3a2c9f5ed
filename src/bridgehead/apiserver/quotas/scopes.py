"""The objects that a quota is about: its scopes.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `podMatchesScopeFunc`, `pvcMatchesScopeFunc`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import qos_class


def in_scope(quota: JsonObject, resource: str, obj: JsonObject) -> bool:
    """Whether an object of the resource with this id matches all scopes of the quota."""
    return all(_matches(one, resource, obj) for one in _requirements(quota.get("spec", {})))


def _requirements(spec: JsonObject) -> Iterator[JsonObject]:
    for scope in spec.get("scopes", ()):
        yield {"scopeName": scope, "operator": "Exists"}
    yield from spec.get("scopeSelector", {}).get("matchExpressions", ())


def _matches(requirement: JsonObject, resource: str, obj: JsonObject) -> bool:
    spec, scope = obj.get("spec", {}), requirement.get("scopeName")
    if resource == "persistentvolumeclaims":
        return scope == "VolumeAttributesClass" and _selects(requirement, spec.get("volumeAttributesClassName", ""))
    if resource != "pods":
        return False
    match scope:
        case "Terminating":
            return "activeDeadlineSeconds" in spec
        case "NotTerminating":
            return "activeDeadlineSeconds" not in spec
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _selects(requirement, spec.get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return _names_other_namespaces(spec.get("affinity", {}))
    return False


def _selects(requirement: JsonObject, name: str) -> bool:
    values = requirement.get("values", ())
    match requirement.get("operator"):
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in values
        case "NotIn":
            return name not in values
    return False


def _names_other_namespaces(affinity: JsonObject) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind, {})
        terms = [
            *rules.get("requiredDuringSchedulingIgnoredDuringExecution", ()),
            *(
                one.get("podAffinityTerm", {})
                for one in rules.get("preferredDuringSchedulingIgnoredDuringExecution", ())
            ),
        ]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
