"""Deployment (apps/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import (
    AGE,
    NAME,
    at,
    format_label_selector,
    number_column,
    template_columns,
)
from bridgehead.apiserver.resources.shared.int_or_percent import is_zero, validate_amount, validate_not_more_than_all
from bridgehead.objects.names import check_dns1123_subdomain

from .workload_strategy import ROLLING_FIELDS, WorkloadStrategy, set_rolling_update, shown_strategy


def _ready_cell(deployment: JsonObject, now: float) -> str:
    return f"{at(deployment, 'status', 'readyReplicas') or 0}/{at(deployment, 'spec', 'replicas') or 0}"


_STRATEGIES = ("Recreate", "RollingUpdate")


class DeploymentStrategy(WorkloadStrategy):
    kind = "deployment"
    names_pods = True
    status_counts = (
        *("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
        *("unavailableReplicas", "terminatingReplicas", "collisionCount"),
    )
    status_parts = ("updatedReplicas", "readyReplicas", "availableReplicas")

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        set_rolling_update(spec.setdefault("strategy", {}), unavailable="25%", surge="25%")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = super().validate(obj)
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            detail = "must be greater than minReadySeconds"
            errors.append(field.invalid("spec.progressDeadlineSeconds", deadline, detail))
        return errors

    def _validate_strategy(self, spec: JsonObject) -> list[FieldError]:
        return _validate_update_strategy("spec.strategy", spec.get("strategy", {}))


def _validate_update_strategy(path: str, strategy: JsonObject) -> list[FieldError]:
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in _STRATEGIES:
        return [field.not_supported(path, shown_strategy(strategy, ROLLING_FIELDS), _STRATEGIES)]
    errors = []
    if strategy.get("type") == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        errors.append(field.forbidden(f"{path}.rollingUpdate", detail))
    if strategy.get("type") != "RollingUpdate" or rolling is None:
        return errors
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors.extend(field.errors_below(f"{path}.rollingUpdate.maxUnavailable", validate_amount, unavailable))
    errors.extend(field.errors_below(f"{path}.rollingUpdate.maxSurge", validate_amount, surge))
    if is_zero(unavailable) and is_zero(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        errors.append(field.invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, detail))
    errors.extend(field.errors_below(f"{path}.rollingUpdate.maxUnavailable", validate_not_more_than_all, unavailable))
    return errors


RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="Deployment",
    plural="deployments",
    singular="deployment",
    namespaced=True,
    short_names=("deploy",),
    categories=("all",),
    subresources=("status", "scale"),
    strategy=DeploymentStrategy(),
    columns=(
        NAME,
        Column("Ready", _ready_cell, description="Number of the pod with ready state"),
        number_column("Up-to-date", "status", "updatedReplicas", type="string"),
        number_column("Available", "status", "availableReplicas", type="string"),
        AGE,
        *template_columns(lambda deployment: format_label_selector(at(deployment, "spec", "selector"))),
    ),
    has_generation=True,
    counted_metadata=("annotations",),
    check_name=check_dns1123_subdomain,
    kept_by_status=("labels",),
)
