"""Validation of the metrics of a HorizontalPodAutoscaler, and of references to objects of any version.

Called by `autoscalers`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateMetricSpec` and what it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of
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


def validate_reference(reference: Field) -> None:
    """Validate the kind and the name of a CrossVersionObjectReference."""
    reference.at("kind").must_be_set_and_pass(check_path_segment)
    reference.at("name").must_be_set_and_pass(check_path_segment)


def validate_api_version(reference: Field, *, needs_group: bool) -> None:
    """Validate the apiVersion of a CrossVersionObjectReference."""
    version = reference.at("apiVersion", "")
    if version.value.count("/") > 1:
        version.invalid(f"unexpected GroupVersion string: {version.value}")
    elif needs_group and not version.value.rpartition("/")[0]:
        version.invalid("apiVersion must specify API group")


def validate_metric(metric: Field) -> None:
    kind = metric.at("type", "")
    kind.must_be_set("must specify a metric source type")
    kind.must_be_one_of(sorted(SOURCES))
    given = [name for name in SOURCES.values() if name in metric.value]
    if given:
        _VALIDATORS[given[0]](metric.at(given[0]))
    expected = SOURCES.get(kind.value)
    if expected is None:
        kind.not_supported(sorted(SOURCES))
    elif expected not in given:
        metric.at(expected).required("must populate information for the given metric source")
    if len(given) != 1:
        for name in given:
            if name != expected:
                metric.at(name).forbidden("must populate the given metric source only")


def _validate_object(source: Field) -> None:
    validate_reference(source.at("describedObject"))
    target = source.at("target")
    _validate_name(source)
    _validate_target(target)
    if target.get("value") is None and target.get("averageValue") is None:
        target.at("averageValue").required("must set either a target value or averageValue")


def _validate_external(source: Field) -> None:
    target = source.at("target")
    value, average = target.at("value"), target.at("averageValue")
    _validate_name(source)
    _validate_target(target)
    if value.value is None and average.value is None:
        average.required("must set either a target value for metric or a per-pod target")
    elif value.value is not None and average.value is not None:
        value.forbidden("may not set both a target value for metric and a per-pod target")


def _validate_pods(source: Field) -> None:
    target = source.at("target")
    _validate_name(source)
    _validate_target(target)
    target.at("averageValue").must_exist("must specify a positive target averageValue")


def _validate_resource(source: Field) -> None:
    source.at("name").must_be_set("must specify a resource name")
    _validate_resource_target(source.at("target"))


def _validate_container_resource(source: Field) -> None:
    name = source.at("name")
    if name.must_be_set("must specify a resource name"):
        validate_container_name(name)
    source.at("container").must_be_set_and_pass(check_dns1123_label, "must specify a container")
    _validate_resource_target(source.at("target"))


def _validate_resource_target(target: Field) -> None:
    utilization, average = target.at("averageUtilization"), target.at("averageValue")
    _validate_target(target)
    if utilization.value is None and average.value is None:
        utilization.required("must set either a target raw value or a target utilization")
    elif utilization.value is not None and average.value is not None:
        average.forbidden("may not set both a target raw value and a target utilization")


def _validate_name(source: Field) -> None:
    source.at("metric").at("name").must_be_set_and_pass(check_path_segment, "must specify a metric name")


def _validate_target(target: Field) -> None:
    kind = target.at("type", "")
    kind.must_be_set("must specify a metric target type")
    if kind.value not in _TARGET_TYPES:
        kind.invalid("must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        quantity = target.at(name, "1")
        if (amount_of(quantity.value) or 0) <= 0:
            quantity.invalid("must be positive")
    target.at("averageUtilization").must_be_at_least(1, "must be greater than 0")


_VALIDATORS: Mapping[str, Callable[[Field], None]] = {
    "object": _validate_object,
    "external": _validate_external,
    "pods": _validate_pods,
    "resource": _validate_resource,
    "containerResource": _validate_container_resource,
}
