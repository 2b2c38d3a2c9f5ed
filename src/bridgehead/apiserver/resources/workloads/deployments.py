"""Deployment (apps/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource
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

    def validate(self, obj: Field) -> None:
        super().validate(obj)
        spec = obj.at("spec")
        least = spec.get("minReadySeconds", 0) + 1
        spec.at("progressDeadlineSeconds").must_be_at_least(least, "must be greater than minReadySeconds")

    def _validate_strategy(self, spec: Field) -> None:
        _validate_update_strategy(spec.at("strategy", {}))


def _validate_update_strategy(strategy: Field) -> None:
    kind, rolling = strategy.get("type"), strategy.at("rollingUpdate")
    if kind not in _STRATEGIES:
        strategy.showing(shown_strategy(strategy.value, ROLLING_FIELDS)).not_supported(_STRATEGIES)
    elif rolling.value is None:
        return
    elif kind == "Recreate":
        rolling.forbidden("may not be specified when strategy `type` is 'Recreate'")
    else:
        unavailable, surge = rolling.at("maxUnavailable", 0), rolling.at("maxSurge", 0)
        validate_amount(unavailable)
        validate_amount(surge)
        if is_zero(unavailable.value) and is_zero(surge.value):
            unavailable.invalid("may not be 0 when `maxSurge` is 0")
        validate_not_more_than_all(unavailable)


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
