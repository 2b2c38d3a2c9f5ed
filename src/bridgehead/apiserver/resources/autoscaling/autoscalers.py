"""HorizontalPodAutoscaler (autoscaling/v2): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/autoscaling/v2/defaults.go`,
`ValidateHorizontalPodAutoscaler`, `printHorizontalPodAutoscaler`; the feature gates have the defaults of 1.36.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, UNKNOWN, UNSET, at, number_column
from bridgehead.apiserver.resources.shared.quantities import validate_quantity
from bridgehead.objects.names import check_dns1123_subdomain

from .metric_validation import SOURCES, validate_api_version, validate_metric, validate_reference

_MAX_PERIOD_SECONDS, _MAX_WINDOW_SECONDS = 1800, 3600
_POLICY_TYPES = ("Percent", "Pods")
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_DEFAULT_TARGET = {"type": "Utilization", "averageUtilization": 80}
_SHOWN_METRICS = 2


class HorizontalPodAutoscalerStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            resource = {"name": "cpu", "target": dict(_DEFAULT_TARGET)}
            spec["metrics"] = [{"type": "Resource", "resource": resource}]
        if "behavior" in spec:
            up = spec["behavior"].setdefault("scaleUp", {})
            up.setdefault("stabilizationWindowSeconds", 0)
            _set_rules(up, {"type": "Pods", "value": 4, "periodSeconds": 15})
            _set_rules(spec["behavior"].setdefault("scaleDown", {}))

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = _with_counts({})

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        obj["status"] = _with_counts(obj.get("status", {}))

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
        errors = []
        if least is not None and least < 1:
            errors.append(field.invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
        if most < 1:
            errors.append(field.invalid("spec.maxReplicas", most, "must be greater than 0"))
        if least is not None and most < least:
            errors.append(field.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
        errors.extend(validate_reference("spec.scaleTargetRef", spec.get("scaleTargetRef", {})))
        for index, metric in enumerate(spec.get("metrics", ())):
            errors.extend(validate_metric(f"spec.metrics[{index}]", metric))
        for name in ("scaleUp", "scaleDown"):
            if (rules := at(spec, "behavior", name)) is not None:
                errors.extend(_validate_rules(f"spec.behavior.{name}", rules))
        return errors

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return [*_validate_target_version(obj), *_validate_object_versions(obj)]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource == "status":
            status = obj.get("status", {})
            names = ("currentReplicas", "desiredReplicas")
            return [error for name in names for error in field.non_negative(f"status.{name}", status.get(name, 0))]
        errors = []
        # What was accepted by an earlier version stays valid.
        if at(obj, "spec", "scaleTargetRef", "kind") != at(old, "spec", "scaleTargetRef", "kind"):
            errors.extend(_validate_target_version(obj))
        if not _validate_object_versions(old):
            errors.extend(_validate_object_versions(obj))
        return errors


def _with_counts(status: JsonObject) -> JsonObject:
    """Return the status with the numbers that it always has."""
    return {"desiredReplicas": 0, "currentReplicas": 0} | status


def _set_rules(rules: JsonObject, *policies: JsonObject) -> None:
    rules.setdefault("selectPolicy", "Max")
    rules.setdefault("policies", [*policies, {"type": "Percent", "value": 100, "periodSeconds": 15}])


def _validate_target_version(obj: JsonObject) -> list[FieldError]:
    reference = at(obj, "spec", "scaleTargetRef") or {}
    # ReplicationController is the only kind of the core group with a scale.
    needs_group = reference.get("kind") != "ReplicationController"
    return validate_api_version("spec.scaleTargetRef", reference, needs_group=needs_group)


def _validate_object_versions(obj: JsonObject) -> list[FieldError]:
    errors = []
    for index, metric in enumerate(at(obj, "spec", "metrics") or ()):
        if metric.get("type") == "Object" and "object" in metric:
            path = f"spec.metrics[{index}].object.describedObject"
            errors.extend(validate_api_version(path, metric["object"].get("describedObject", {}), needs_group=False))
    return errors


def _validate_rules(path: str, rules: JsonObject) -> list[FieldError]:
    errors = []
    seconds = rules.get("stabilizationWindowSeconds", 0)
    window = f"{path}.stabilizationWindowSeconds"
    if seconds < 0:
        errors.append(field.invalid(window, seconds, "must be greater than or equal to zero"))
    if seconds > _MAX_WINDOW_SECONDS:
        errors.append(field.invalid(window, seconds, f"must be less than or equal to {_MAX_WINDOW_SECONDS}"))
    errors.extend(field.one_of(f"{path}.selectPolicy", rules.get("selectPolicy"), _SELECT_POLICIES))
    if not rules.get("policies"):
        errors.append(field.required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(rules.get("policies", ())):
        item = f"{path}.policies[{index}]"
        errors.extend(field.one_of(f"{item}.type", policy.get("type", ""), _POLICY_TYPES))
        numbers = {name: policy.get(name, 0) for name in ("value", "periodSeconds")}
        errors.extend(
            field.invalid(f"{item}.{name}", number, "must be greater than zero")
            for name, number in numbers.items()
            if number <= 0
        )
        if numbers["periodSeconds"] > _MAX_PERIOD_SECONDS:
            detail = f"must be less than or equal to {_MAX_PERIOD_SECONDS}"
            errors.append(field.invalid(f"{item}.periodSeconds", numbers["periodSeconds"], detail))
    if "tolerance" in rules:
        errors.extend(field.errors_below(f"{path}.tolerance", validate_quantity, rules["tolerance"]))
    return errors


# --- Columns ---------------------------------------------------------------------------------------------


def _targets_cell(obj: JsonObject, now: float) -> str:
    metrics, seen = at(obj, "spec", "metrics") or (), at(obj, "status", "currentMetrics") or ()
    shown = [_shown_metric(metric, seen[index] if index < len(seen) else {}) for index, metric in enumerate(metrics)]
    if not shown:
        return NONE
    text = ", ".join(shown[:_SHOWN_METRICS])
    return text if len(shown) <= _SHOWN_METRICS else f"{text} + {len(shown) - _SHOWN_METRICS} more..."


def _shown_metric(metric: JsonObject, status: JsonObject) -> str:
    """Render one metric with its current value, such as `cpu: 12%/80%`."""
    source = SOURCES.get(str(metric.get("type")), "")
    target, current = at(metric, source, "target") or {}, at(status, source, "current") or {}
    if source in ("resource", "containerResource"):
        name = at(metric, source, "name")
        if "averageValue" in target:
            return f"{name}: {current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        utilization = f"{current['averageUtilization']}%" if "averageUtilization" in current else UNKNOWN
        wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
        return f"{name}: {utilization}/{wanted}"
    if "averageValue" in target:
        suffix = "" if source == "pods" else " (avg)"
        return f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}{suffix}"
    return f"{current.get('value', UNKNOWN)}/{target.get('value')}" if source else "<unknown type>"


def _reference_cell(obj: JsonObject, now: float) -> str:
    reference = at(obj, "spec", "scaleTargetRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _least_cell(obj: JsonObject, now: float) -> str:
    least = at(obj, "spec", "minReplicas")
    return UNSET if least is None else str(least)


RESOURCE = Resource(
    group="autoscaling",
    version="v2",
    kind="HorizontalPodAutoscaler",
    plural="horizontalpodautoscalers",
    singular="horizontalpodautoscaler",
    namespaced=True,
    short_names=("hpa",),
    categories=("all",),
    subresources=("status",),
    strategy=HorizontalPodAutoscalerStrategy(),
    columns=(
        NAME,
        Column("Reference", _reference_cell),
        Column("Targets", _targets_cell),
        Column("MinPods", _least_cell),
        number_column("MaxPods", "spec", "maxReplicas", type="string"),
        number_column("Replicas", "status", "currentReplicas", type="string"),
        AGE,
    ),
    api_versions=("autoscaling/v2", "autoscaling/v1"),
    check_name=check_dns1123_subdomain,
)
