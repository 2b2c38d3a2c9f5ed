"""Validation of the resources of a pod as a whole (`spec.resources`).

Pure: no I/O, no clock, no randomness. Called by `pod_validation`. Source: Kubernetes `validatePodResources`,
`validatePodResourceConsistency`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of, quantity_text
from bridgehead.apiserver.resources.shared.resource_names import HUGE_PAGES
from bridgehead.objects.quantities import format_quantity

from .pod_resources import pod_amounts
from .resource_validation import validate_pod_requirements


def validate_pod_level_resources(spec: Field) -> None:
    """Validate the resources of a pod spec."""
    if "resources" not in spec.value:
        return
    resources = spec.at("resources")
    if spec.get("os", {}).get("name") == "windows":
        resources.forbidden("may not be set for a windows pod")
        return
    resources.at("claims").must_not_be_set("claims cannot be set for Resources at pod-level")
    validate_pod_requirements(resources)
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
