"""Facts about a CustomResourceDefinition as decoded JSON: versions, names, conditions.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apihelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.conditions import find_condition

GROUP = "apiextensions.k8s.io"
ID = f"customresourcedefinitions.{GROUP}"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

NAMES_ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"
API_APPROVED = "KubernetesAPIApprovalPolicyConformant"


def versions_of(crd: JsonObject) -> list[JsonObject]:
    versions: list[JsonObject] = crd.get("spec", {}).get("versions") or []
    return versions


def storage_version(crd: JsonObject) -> str:
    """Return the name of the storage version, "" without one."""
    return next((str(version.get("name", "")) for version in versions_of(crd) if version.get("storage")), "")


def schema_of(version: JsonObject) -> JsonObject | None:
    """Return the OpenAPI schema of a version, None without one."""
    schema: JsonObject | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def is_namespaced(crd: JsonObject) -> bool:
    return bool(crd["spec"].get("scope") == "Namespaced")


def preserves_unknown_fields(crd: JsonObject) -> bool:
    return crd["spec"].get("preserveUnknownFields") is True


def is_true(crd: JsonObject, condition: str) -> bool:
    found = find_condition(crd.get("status", {}).get("conditions"), condition)
    return found is not None and found.get("status") == "True"


def is_served(crd: JsonObject) -> bool:
    """Whether the API serves the defined resource, if one of its versions is to be served."""
    return is_true(crd, NAMES_ACCEPTED) or is_true(crd, ESTABLISHED)


def with_conditions(crd: JsonObject, wanted: Iterable[JsonObject], now: str) -> JsonObject:
    """Return `crd` with conditions set. The time of a condition changes with its status; `now` is RFC 3339."""
    status = crd.get("status", {})
    conditions: list[JsonObject] = list(status.get("conditions") or ())
    for condition in wanted:
        old = find_condition(conditions, condition["type"])
        if old is None:
            conditions.append({"lastTransitionTime": now, **condition})
            continue
        since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
        conditions[conditions.index(old)] = {"lastTransitionTime": since or now, **condition}
    return {**crd, "status": {**status, "conditions": conditions}}


def make_condition(type: str, *, is_true: bool, reason: str, message: str) -> JsonObject:
    """Return a condition without its time."""
    return {"type": type, "status": "True" if is_true else "False", "reason": reason, "message": message}


def same_condition(one: JsonObject | None, other: JsonObject | None) -> bool:
    """Whether two conditions differ at most in their times."""
    if one is None or other is None:
        return one is other
    return all(one.get(name) == other.get(name) for name in ("type", "status", "reason", "message"))


def all_equal(values: Sequence[object]) -> bool:
    """Whether all values are present and equal."""
    return bool(values) and bool(values[0]) and all(value == values[0] for value in values)
