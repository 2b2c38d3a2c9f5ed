"""Validation of the metrics of a HorizontalPodAutoscaler, and of references to objects of any version.

Called by `autoscalers`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateMetricSpec` and what it calls.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.quantities import amount_of
from bridgehead.apiserver.resources.shared.resource_names import validate_container_name
from bridgehead.objects.names import check_dns1123_label, check_path_segment

# The type of a metric -> the field with its source, in the order in which sources are validated.
SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
_NO_RESOURCE_TARGET = "must set either a target raw value or a target utilization"
_BOTH_RESOURCE_TARGETS = "may not set both a target raw value and a target utilization"


def validate_reference(path: str, reference: JsonObject) -> list[FieldError]:
    """Validate the kind and the name of a CrossVersionObjectReference."""
    errors = field.required_valid(f"{path}.kind", reference.get("kind", ""), check_path_segment)
    return [*errors, *field.required_valid(f"{path}.name", reference.get("name", ""), check_path_segment)]


def validate_api_version(path: str, reference: JsonObject, *, needs_group: bool) -> list[FieldError]:
    """Validate the apiVersion of a CrossVersionObjectReference."""
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        return [field.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")]
    if needs_group and not version.rpartition("/")[0]:
        return [field.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")]
    return []


def validate_metric(path: str, metric: JsonObject) -> list[FieldError]:
    errors = []
    kind = metric.get("type", "")
    if not kind:
        errors.append(field.required(f"{path}.type", "must specify a metric source type"))
    errors.extend(field.one_of(f"{path}.type", kind, sorted(SOURCES)))
    given = [name for name in SOURCES.values() if name in metric]
    if given:
        errors.extend(_VALIDATORS[given[0]](f"{path}.{given[0]}", metric[given[0]]))
    expected = SOURCES.get(kind)
    if expected is None:
        errors.append(field.not_supported(f"{path}.type", kind, sorted(SOURCES)))
    elif expected not in given:
        errors.append(field.required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(given) != 1:
        detail = "must populate the given metric source only"
        errors.extend(field.forbidden(f"{path}.{name}", detail) for name in given if name != expected)
    return errors


def _validate_object(path: str, source: JsonObject) -> list[FieldError]:
    errors = validate_reference(f"{path}.describedObject", source.get("describedObject", {}))
    errors.extend(_validate_identifier_and_target(path, source))
    target = source.get("target", {})
    if "value" not in target and "averageValue" not in target:
        errors.append(field.required(f"{path}.target.averageValue", "must set either a target value or averageValue"))
    return errors


def _validate_external(path: str, source: JsonObject) -> list[FieldError]:
    errors = _validate_identifier_and_target(path, source)
    target = source.get("target", {})
    given = [name for name in ("value", "averageValue") if name in target]
    if not given:
        detail = "must set either a target value for metric or a per-pod target"
        errors.append(field.required(f"{path}.target.averageValue", detail))
    if len(given) > 1:
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(field.forbidden(f"{path}.target.value", detail))
    return errors


def _validate_pods(path: str, source: JsonObject) -> list[FieldError]:
    errors = _validate_identifier_and_target(path, source)
    if "averageValue" not in source.get("target", {}):
        detail = "must specify a positive target averageValue"
        errors.append(field.required(f"{path}.target.averageValue", detail))
    return errors


def _validate_resource(path: str, source: JsonObject) -> list[FieldError]:
    errors = [] if source.get("name") else [field.required(f"{path}.name", "must specify a resource name")]
    return [*errors, *_validate_resource_target(f"{path}.target", source.get("target", {}))]


def _validate_container_resource(path: str, source: JsonObject) -> list[FieldError]:
    if name := source.get("name"):
        errors = field.errors_below(f"{path}.name", validate_container_name, name)
    else:
        errors = [field.required(f"{path}.name", "must specify a resource name")]
    if container := source.get("container"):
        errors.extend(field.invalid_for(f"{path}.container", container, check_dns1123_label(container)))
    else:
        errors.append(field.required(f"{path}.container", "must specify a container"))
    return [*errors, *_validate_resource_target(f"{path}.target", source.get("target", {}))]


def _validate_resource_target(path: str, target: JsonObject) -> list[FieldError]:
    errors = _validate_target(path, target)
    given = [name for name in ("averageUtilization", "averageValue") if name in target]
    if not given:
        errors.append(field.required(f"{path}.averageUtilization", _NO_RESOURCE_TARGET))
    if len(given) > 1:
        errors.append(field.forbidden(f"{path}.averageValue", _BOTH_RESOURCE_TARGETS))
    return errors


def _validate_identifier_and_target(path: str, source: JsonObject) -> list[FieldError]:
    name = source.get("metric", {}).get("name", "")
    if name:
        errors = field.invalid_for(f"{path}.metric.name", name, check_path_segment(name))
    else:
        errors = [field.required(f"{path}.metric.name", "must specify a metric name")]
    return [*errors, *_validate_target(f"{path}.target", source.get("target", {}))]


def _validate_target(path: str, target: JsonObject) -> list[FieldError]:
    errors = []
    kind = target.get("type", "")
    if not kind:
        errors.append(field.required(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGET_TYPES:
        errors.append(field.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    errors.extend(
        field.invalid(f"{path}.{name}", target[name], "must be positive")
        for name in ("value", "averageValue")
        if name in target and (amount_of(target[name]) or 0) <= 0
    )
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(field.invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


_VALIDATORS: dict[str, Callable[[str, JsonObject], list[FieldError]]] = {
    "object": _validate_object,
    "external": _validate_external,
    "pods": _validate_pods,
    "resource": _validate_resource,
    "containerResource": _validate_container_resource,
}
