"""Validation of the resources of a pod as a whole (`spec.resources`).

Pure: no I/O, no clock, no randomness. Called by `pod_validation`. Source: Kubernetes `validatePodResources`,
`validatePodResourceConsistency`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.quantities import amount_of
from bridgehead.objects.quantities import format_quantity

from .container_validation import validate_resources
from .pod_resources import pod_amounts

_SUPPORTED = ("cpu", "hugepages-", "memory")


def validate_pod_level_resources(path: str, spec: JsonObject) -> list[FieldError]:
    """`path` is that of the pod spec."""
    resources = spec.get("resources")
    if resources is None:
        return []
    item = f"{path}.resources"
    errors = [
        field.not_supported(f"{item}.{kind}[{name}]", name, _SUPPORTED)
        for kind in ("limits", "requests")
        for name in resources.get(kind, {})
        if name not in ("cpu", "memory") and not name.startswith("hugepages-")
    ]
    errors.extend(validate_resources(item, resources))
    return [*errors, *_validate_requests(item, spec), *_validate_limits(path, spec)]


def _validate_requests(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate that the requests of the containers fit into those of the pod."""
    containers: JsonObject = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    requests = spec["resources"].get("requests", {})
    errors = []
    for name, amount in sorted(pod_amounts(containers, "requests").items()):
        own = amount_of(requests.get(name, ""))
        if own is not None and amount.value > own:
            text = format_quantity(amount.value, is_binary=amount.is_binary)
            detail = f"must be greater than or equal to aggregate container requests of {text}"
            errors.append(field.invalid(f"{path}.requests[{name}]", requests[name], detail))
    return errors


def _validate_limits(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate that no container has a higher limit than its pod."""
    limits = spec["resources"].get("limits", {})
    errors = []
    for index, container in enumerate(spec.get("containers", ())):
        for name, limit in sorted(container.get("resources", {}).get("limits", {}).items()):
            own, whole = amount_of(limit), amount_of(limits.get(name, ""))
            if own is not None and whole is not None and own > whole:
                item = f"{path}.containers[{index}].resources.limits[{name}]"
                errors.append(field.invalid(item, limit, f"must be less than or equal to pod limits of {limits[name]}"))
    return errors
