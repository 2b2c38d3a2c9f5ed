"""Validation of the `resources` of containers and of a pod as a whole, and of its `overhead`.

Called by `container_validation`, `pod_level_resources` and `pod_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateResourceRequirements`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.quantities import amount_of, quantity_text
from bridgehead.apiserver.resources.shared.resource_amounts import validate_resource_amount
from bridgehead.apiserver.resources.shared.resource_names import (
    COMPUTE,
    HUGE_PAGES,
    can_overcommit,
    validate_container_name,
    validate_pod_level_name,
)
from bridgehead.objects.quantities import whole_value

from .claims_validation import validate_claim_references

CheckName = Callable[[Field], object]


def validate_resources(path: str, resources: JsonObject, claims: Collection[str]) -> list[FieldError]:
    """Validate the resources of a container. `claims` are the names of the claims of its pod."""
    errors = _validate_requirements(path, resources, validate_container_name)
    if references := resources.get("claims"):
        errors += validate_claim_references(f"{path}.claims", references, claims)
    return errors


def validate_overhead(path: str, overhead: JsonObject) -> list[FieldError]:
    return _validate_requirements(path, {"limits": overhead}, validate_container_name)


def validate_pod_requirements(path: str, resources: JsonObject) -> list[FieldError]:
    """Validate the requests and limits of a pod as a whole by themselves."""
    return _validate_requirements(path, resources, validate_pod_level_name)


def _validate_requirements(path: str, resources: JsonObject, check_name: CheckName) -> list[FieldError]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    errors = []
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            item = f"{path}.{kind}[{name}]"
            errors += field.errors_below(item, check_name, name)
            errors += field.errors_below(item, validate_resource_amount, quantity, name)
            if kind == "requests":
                errors += _validate_request(path, name, quantity, limits)
            if name.startswith(HUGE_PAGES) and not _is_divisible(name, quantity):
                text = quantity_text(quantity)
                errors.append(field.invalid(item, text, f"{text} is not positive integer multiple of {name}"))
    names = {*limits, *requests}
    if names and names.isdisjoint(COMPUTE) and any(name.startswith(HUGE_PAGES) for name in names):
        errors.append(field.forbidden(path, "HugePages require cpu or memory"))
    return errors


def _validate_request(path: str, name: str, quantity: Any, limits: JsonObject) -> list[FieldError]:
    """Validate a request against its limit."""
    may_be_lower = can_overcommit(name)
    if name not in limits:
        if may_be_lower:
            return []
        return [field.required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    amount, limit = amount_of(quantity), amount_of(limits[name])
    if amount is None or limit is None or amount == limit or (may_be_lower and amount < limit):
        return []
    relation = "less than or equal to" if may_be_lower else "equal to"
    detail = f"must be {relation} {name} limit of {quantity_text(limits[name])}"
    return [field.invalid(f"{path}.requests", quantity_text(quantity), detail)]


def _is_divisible(name: str, quantity: Any) -> bool:
    """Whether an amount of huge pages is a number of whole pages."""
    size = amount_of(name.removeprefix(HUGE_PAGES))
    if size is None or not 0 < size < 2**63 or size % 1:
        return False
    return amount_of(quantity) is None or not whole_value(quantity) % int(size)
