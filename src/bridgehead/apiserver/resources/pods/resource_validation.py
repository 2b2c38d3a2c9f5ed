"""Validation of the `resources` of containers and of a pod as a whole, and of its `overhead`.

Called by `container_validation` and `pod_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateResourceRequirements`, `validatePodResources`, `validatePodResourceConsistency`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of, quantity_text
from bridgehead.apiserver.resources.shared.resource_amounts import validate_resource_amount
from bridgehead.apiserver.resources.shared.resource_names import (
    COMPUTE,
    HUGE_PAGES,
    can_overcommit,
    validate_container_name,
    validate_pod_level_name,
)
from bridgehead.objects.quantities import format_quantity, whole_value

from .claims_validation import validate_claim_references
from .pod_resources import pod_amounts


def validate_resources(resources: Field, claims: Collection[str]) -> None:
    """Validate the resources of a container. `claims` are the names of the claims of its pod."""
    _validate_requirements(resources, validate_container_name)
    if references := resources.at("claims"):
        validate_claim_references(references, claims)


def validate_overhead(overhead: Field) -> None:
    _validate_requirements(overhead.showing({"limits": overhead.value}), validate_container_name)


def _validate_requirements(resources: Field, validate_name: Callable[[Field], object]) -> None:
    limits, requests = resources.at("limits", {}), resources.at("requests", {})
    for quantities in (limits, requests):
        for name, quantity in quantities.entries():
            validate_name(quantity.showing(name))
            validate_resource_amount(quantity, name)
            if quantities is requests:
                _validate_request(requests, name, limits)
            if name.startswith(HUGE_PAGES) and not _is_divisible(name, quantity.value):
                text = quantity_text(quantity.value)
                quantity.showing(text).invalid(f"{text} is not positive integer multiple of {name}")
    names = {*limits.value, *requests.value}
    if names and names.isdisjoint(COMPUTE) and any(name.startswith(HUGE_PAGES) for name in names):
        resources.forbidden("HugePages require cpu or memory")


def _validate_request(requests: Field, name: str, limits: Field) -> None:
    """Validate a request against its limit."""
    may_be_lower = can_overcommit(name)
    if name not in limits.value:
        if not may_be_lower:
            limits.required("Limit must be set for non overcommitable resources")
        return
    amount, limit = amount_of(requests.value[name]), amount_of(limits.value[name])
    if amount is None or limit is None or amount == limit or (may_be_lower and amount < limit):
        return
    relation = "less than or equal to" if may_be_lower else "equal to"
    detail = f"must be {relation} {name} limit of {quantity_text(limits.value[name])}"
    requests.showing(quantity_text(requests.value[name])).invalid(detail)


def _is_divisible(name: str, quantity: Any) -> bool:
    """Whether an amount of huge pages is a number of whole pages."""
    size = amount_of(name.removeprefix(HUGE_PAGES))
    if size is None or not 0 < size < 2**63 or size % 1:
        return False
    return amount_of(quantity) is None or not whole_value(quantity) % int(size)


def validate_pod_level_resources(spec: Field) -> None:
    """Validate the resources of a pod spec as a whole."""
    if "resources" not in spec.value:
        return
    resources = spec.at("resources")
    if spec.get("os", {}).get("name") == "windows":
        resources.forbidden("may not be set for a windows pod")
        return
    resources.at("claims").must_not_be_set("claims cannot be set for Resources at pod-level")
    _validate_requirements(resources, validate_pod_level_name)
    _validate_aggregates(resources, spec.value)
    _validate_limits(resources, spec.get("containers", ()))


def _validate_aggregates(resources: Field, spec: JsonObject) -> None:
    """Validate that what the containers request fits into the pod, and their limits of huge pages too."""
    containers: JsonObject = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    for kind in ("requests", "limits"):
        quantities = dict(resources.at(kind).entries())
        for name, amount in sorted(pod_amounts(containers, kind).items()):
            if name not in quantities or (kind == "limits" and not name.startswith(HUGE_PAGES)):
                continue
            own = amount_of(quantities[name].value)
            if own is not None and amount.value > own:
                text = format_quantity(amount.value, is_binary=amount.is_binary)
                detail = f"must be greater than or equal to aggregate container {kind} of {text}"
                quantities[name].showing(quantity_text(quantities[name].value)).invalid(detail)


def _validate_limits(resources: Field, containers: Sequence[JsonObject]) -> None:
    """Validate that no container has a higher limit than its pod. The paths are those of Kubernetes."""
    limits = resources.get("limits", {})
    for index, container in enumerate(containers):
        for name, limit in sorted(container.get("resources", {}).get("limits", {}).items()):
            own, whole = amount_of(limit), amount_of(limits.get(name, ""))
            if own is not None and whole is not None and own > whole:
                shown = Field(quantity_text(limit), f"containers[{index}][{name}].limits", resources)
                shown.invalid(f"must be less than or equal to pod limits of {quantity_text(limits[name])}")
