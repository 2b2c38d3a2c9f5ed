"""Validation of the `resources` of containers and of a pod as a whole, and of its `overhead`.

Called by `container_validation`, `pod_level_resources` and `pod_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateResourceRequirements`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.quantities import amount_of
from bridgehead.apiserver.resources.shared.resource_names import OBJECT_COUNTS
from bridgehead.objects.names import check_qualified_name
from bridgehead.objects.quantities import canonical_quantity, milli_value, whole_value

from .claims_validation import validate_claim_references

HUGE_PAGES = "hugepages-"
_COMPUTE = ("cpu", "memory")
_OF_CONTAINERS = (*_COMPUTE, "ephemeral-storage")
_STANDARD = (
    *_OF_CONTAINERS,
    *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _OF_CONTAINERS),
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "storage", "requests.storage", "services.nodeports", "services.loadbalancers"),
)
_SUPPORTED_FOR_PODS = ("cpu", HUGE_PAGES, "memory")

CheckName = Callable[[str, str], list[FieldError]]


def validate_resources(path: str, resources: JsonObject, claims: Collection[str]) -> list[FieldError]:
    """Validate the resources of a container. `claims` are the names of the claims of its pod."""
    errors = _validate_requirements(path, resources, _check_of_container)
    if references := resources.get("claims"):
        errors += validate_claim_references(f"{path}.claims", references, claims)
    return errors


def validate_overhead(path: str, overhead: JsonObject) -> list[FieldError]:
    return _validate_requirements(path, {"limits": overhead}, _check_of_container)


def validate_pod_requirements(path: str, resources: JsonObject) -> list[FieldError]:
    """Validate the requests and limits of a pod as a whole by themselves."""
    return _validate_requirements(path, resources, _check_of_pod)


def _validate_requirements(path: str, resources: JsonObject, check_name: CheckName) -> list[FieldError]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    errors = []
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            item = f"{path}.{kind}[{name}]"
            errors += check_name(item, name)
            errors += validate_resource_amount(item, name, quantity)
            if kind == "requests":
                errors += _validate_request(path, name, quantity, limits)
            if name.startswith(HUGE_PAGES) and not _is_divisible(name, quantity):
                text = quantity_text(quantity)
                errors.append(field.invalid(item, text, f"{text} is not positive integer multiple of {name}"))
    names = {*limits, *requests}
    if names and names.isdisjoint(_COMPUTE) and any(name.startswith(HUGE_PAGES) for name in names):
        errors.append(field.forbidden(path, "HugePages require cpu or memory"))
    return errors


def _validate_request(path: str, name: str, quantity: Any, limits: JsonObject) -> list[FieldError]:
    """Validate a request against its limit. Resources of devices and huge pages cannot be overcommitted."""
    can_overcommit = _is_native(name) and not name.startswith(HUGE_PAGES)
    if name not in limits:
        if can_overcommit:
            return []
        return [field.required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    amount, limit = amount_of(quantity), amount_of(limits[name])
    if amount is None or limit is None or amount == limit or (can_overcommit and amount < limit):
        return []
    relation = "less than or equal to" if can_overcommit else "equal to"
    detail = f"must be {relation} {name} limit of {quantity_text(limits[name])}"
    return [field.invalid(f"{path}.requests", quantity_text(quantity), detail)]


def validate_resource_amount(path: str, name: str, quantity: Any) -> list[FieldError]:
    """Validate the quantity of a resource. `name` decides whether it may have parts."""
    amount = amount_of(quantity)
    if amount is None:
        return [field.invalid(path, quantity, "must be a quantity")]
    errors = []
    if amount < 0:
        errors.append(field.invalid(path, quantity_text(quantity), "must be greater than or equal to 0"))
    if (name in OBJECT_COUNTS or _is_extended(name)) and milli_value(quantity) % 1000:
        errors.append(field.invalid(path, quantity_text(quantity), "must be an integer"))
    return errors


def _check_name(path: str, name: str) -> list[FieldError]:
    """Validate the name of a resource of any kind."""
    if reasons := check_qualified_name(name):
        return field.invalid_for(path, name, reasons)
    is_known = "/" in name or name in _STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))
    return [] if is_known else [field.invalid(path, name, "must be a standard resource type or fully qualified")]


def _check_of_container(path: str, name: str) -> list[FieldError]:
    if name in _OF_CONTAINERS:
        return []
    errors = _check_name(path, name)
    if "/" not in name:
        if not name.startswith(HUGE_PAGES):
            errors.append(field.invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and not _is_extended(name):
        errors.append(field.invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _check_of_pod(path: str, name: str) -> list[FieldError]:
    if name in _COMPUTE or name.startswith(HUGE_PAGES):
        return []
    return _check_name(path, name) or [field.not_supported(path, name, _SUPPORTED_FOR_PODS)]


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Whether a device plug-in or a driver may offer the resource. Quotas put `requests.` before such a name."""
    return not _is_native(name) and not name.startswith("requests.") and not check_qualified_name(f"requests.{name}")


def _is_divisible(name: str, quantity: Any) -> bool:
    """Whether an amount of huge pages is a number of whole pages."""
    size = amount_of(name.removeprefix(HUGE_PAGES))
    if size is None or not 0 < size < 2**63 or size % 1:
        return False
    return amount_of(quantity) is None or not whole_value(quantity) % int(size)


def quantity_text(quantity: Any) -> str:
    """Return a quantity as errors show it."""
    return canonical_quantity(str(quantity)) if amount_of(quantity) is not None else str(quantity)
