"""DaemonSet (apps/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, FieldError, JsonObject, Resource
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.amounts import is_zero, validate_share
from bridgehead.apiserver.resources.shared.columns import (
    AGE,
    NAME,
    at,
    format_label_selector,
    format_labels,
    number_column,
    template_columns,
)
from bridgehead.objects.names import check_dns1123_subdomain

from .workload_strategy import WorkloadStrategy, set_rolling_update

_NO_PODS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_STRATEGIES = ("RollingUpdate", "OnDelete")
# The annotation for the former field `templateGeneration`. Only the server changes it.
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(WorkloadStrategy):
    kind = "daemonset"
    owner = "DaemonSet"

    status_counts = (
        *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
        *("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
    )

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("revisionHistoryLimit", 10)
        set_rolling_update(spec.setdefault("updateStrategy", {}), unavailable=1, surge=0)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = dict.fromkeys(_NO_PODS, 0)
        _set_template_generation(obj, 1)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        is_same = at(obj, "spec", "template") == at(old, "spec", "template")
        generation = int(at(old, "metadata", "annotations", _TEMPLATE_GENERATION) or 1)
        _set_template_generation(obj, generation if is_same else generation + 1)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        strategy = obj.get("spec", {}).get("updateStrategy", {})
        return [*super().validate(obj), *_validate_update_strategy("spec.updateStrategy", strategy)]


def _set_template_generation(daemon_set: JsonObject, generation: int) -> None:
    annotations = daemon_set.setdefault("metadata", {}).setdefault("annotations", {})
    annotations[_TEMPLATE_GENERATION] = str(generation)


def _validate_update_strategy(path: str, strategy: JsonObject) -> list[FieldError]:
    errors = field.one_of(f"{path}.type", strategy.get("type"), _STRATEGIES)
    if strategy.get("type") != "RollingUpdate":
        return errors
    rolling = strategy.get("rollingUpdate", {})
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors.extend(validate_share(f"{path}.rollingUpdate.maxUnavailable", unavailable))
    errors.extend(validate_share(f"{path}.rollingUpdate.maxSurge", surge))
    if is_zero(unavailable) and is_zero(surge):
        errors.append(field.required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    if not is_zero(unavailable) and not is_zero(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        errors.append(field.invalid(f"{path}.rollingUpdate.maxSurge", surge, detail))
    return errors


def _node_selector_cell(daemon_set: JsonObject, now: float) -> str:
    return format_labels(at(daemon_set, "spec", "template", "spec", "nodeSelector"))


RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="DaemonSet",
    plural="daemonsets",
    singular="daemonset",
    namespaced=True,
    short_names=("ds",),
    categories=("all",),
    subresources=("status",),
    strategy=DaemonSetStrategy(),
    columns=(
        NAME,
        number_column("Desired", "status", "desiredNumberScheduled"),
        number_column("Current", "status", "currentNumberScheduled"),
        number_column("Ready", "status", "numberReady"),
        number_column("Up-to-date", "status", "updatedNumberScheduled"),
        number_column("Available", "status", "numberAvailable"),
        Column("Node Selector", _node_selector_cell),
        AGE,
        *template_columns(lambda daemon_set: format_label_selector(at(daemon_set, "spec", "selector"))),
    ),
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
