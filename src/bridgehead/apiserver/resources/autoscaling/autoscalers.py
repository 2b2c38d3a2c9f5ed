"""HorizontalPodAutoscaler (autoscaling/v2): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/autoscaling/v2/defaults.go`,
`ValidateHorizontalPodAutoscaler`, `printHorizontalPodAutoscaler`; the feature gates have the defaults of 1.36.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, UNKNOWN, UNSET, at, number_column
from bridgehead.apiserver.resources.shared.quantity_rules import validate_quantity
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

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec")
        least, most = spec.at("minReplicas"), spec.at("maxReplicas", 0)
        least.must_be_at_least(1)
        most.must_be_at_least(1, "must be greater than 0")
        if least.value is not None:
            most.must_be_at_least(least.value, "must be greater than or equal to `minReplicas`")
        validate_reference(spec.at("scaleTargetRef"))
        spec.at("metrics").must_all_obey(validate_metric)
        for name in ("scaleUp", "scaleDown"):
            spec.at("behavior").at(name).must_obey(_validate_rules)

    def validate_create(self, obj: Field) -> None:
        _validate_target_version(obj)
        _validate_object_versions(obj)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            for name in ("currentReplicas", "desiredReplicas"):
                obj.at("status").at(name).must_not_be_negative()
            return
        # Values that an earlier version accepted stay valid.
        if at(obj.value, "spec", "scaleTargetRef", "kind") != at(old, "spec", "scaleTargetRef", "kind"):
            _validate_target_version(obj)
        if Field(old).must_obey(_validate_object_versions):
            _validate_object_versions(obj)


def _with_counts(status: JsonObject) -> JsonObject:
    """Return the status with the numbers that it always has."""
    return {"desiredReplicas": 0, "currentReplicas": 0} | status


def _set_rules(rules: JsonObject, *policies: JsonObject) -> None:
    rules.setdefault("selectPolicy", "Max")
    rules.setdefault("policies", [*policies, {"type": "Percent", "value": 100, "periodSeconds": 15}])


def _validate_target_version(obj: Field) -> None:
    reference = obj.at("spec").at("scaleTargetRef")
    # ReplicationController is the only kind of the core group with a scale.
    validate_api_version(reference, needs_group=reference.get("kind") != "ReplicationController")


def _validate_object_versions(obj: Field) -> None:
    for metric in obj.at("spec").at("metrics").each():
        if metric.get("type") == "Object":
            validate_api_version(metric.at("object").at("describedObject"), needs_group=False)


def _validate_rules(rules: Field) -> None:
    window, policies = rules.at("stabilizationWindowSeconds"), rules.at("policies")
    window.must_be_at_least(0, "must be greater than or equal to zero")
    window.must_be_at_most(_MAX_WINDOW_SECONDS)
    rules.at("selectPolicy").must_be_one_of(_SELECT_POLICIES)
    policies.must_be_set("must specify at least one Policy")
    for policy in policies.each():
        policy.at("type", "").must_be_one_of(_POLICY_TYPES)
        for name in ("value", "periodSeconds"):
            policy.at(name, 0).must_be_at_least(1, "must be greater than zero")
        policy.at("periodSeconds").must_be_at_most(_MAX_PERIOD_SECONDS)
    rules.at("tolerance").must_obey(validate_quantity)


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
