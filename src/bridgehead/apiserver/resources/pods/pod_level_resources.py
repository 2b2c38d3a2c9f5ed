"""Validation of the resources of a pod as a whole (`spec.resources`).

Pure: no I/O, no clock, no randomness. Called by `pod_validation`. Source: Kubernetes `validatePodResources`,
`validatePodResourceConsistency`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.quantities import amount_of, quantity_text
from bridgehead.apiserver.resources.shared.resource_names import HUGE_PAGES
from bridgehead.objects.quantities import format_quantity

from .pod_resources import pod_amounts
from .resource_validation import validate_pod_requirements


def validate_pod_level_resources(path: str, spec: JsonObject) -> list[FieldError]:
    """`path` is that of the pod spec."""
    resources = spec.get("resources")
    if resources is None:
        return []
    item = f"{path}.resources"
    if spec.get("os", {}).get("name") == "windows":
        return [field.forbidden(item, "may not be set for a windows pod")]
    errors = []
    if resources.get("claims"):
        errors.append(field.forbidden(f"{item}.claims", "claims cannot be set for Resources at pod-level"))
    errors.extend(validate_pod_requirements(item, resources))
    return [*errors, *_validate_aggregates(item, spec), *_validate_limits(item, spec)]


def _validate_aggregates(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate that what the containers request fits into the pod, and their limits of huge pages too."""
    containers: JsonObject = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    errors = []
    for kind in ("requests", "limits"):
        given = spec["resources"].get(kind, {})
        for name, amount in sorted(pod_amounts(containers, kind).items()):
            own = amount_of(given.get(name, ""))
            is_checked = kind == "requests" or name.startswith(HUGE_PAGES)
            if is_checked and own is not None and amount.value > own:
                text = format_quantity(amount.value, is_binary=amount.is_binary)
                detail = f"must be greater than or equal to aggregate container {kind} of {text}"
                errors.append(field.invalid(f"{path}.{kind}[{name}]", quantity_text(given[name]), detail))
    return errors


def _validate_limits(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate that no container has a higher limit than its pod. The paths are those of Kubernetes."""
    limits = spec["resources"].get("limits", {})
    errors = []
    for index, container in enumerate(spec.get("containers", ())):
        for name, limit in sorted(container.get("resources", {}).get("limits", {}).items()):
            own, whole = amount_of(limit), amount_of(limits.get(name, ""))
            if own is not None and whole is not None and own > whole:
                item = f"{path}.containers[{index}][{name}].limits"
                detail = f"must be less than or equal to pod limits of {quantity_text(limits[name])}"
                errors.append(field.invalid(item, quantity_text(limit), detail))
    return errors
