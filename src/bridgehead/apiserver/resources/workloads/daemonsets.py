"""DaemonSet (apps/v1): its entry in the table, its defaults and its rules.

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
    format_labels,
    number_column,
    template_columns,
)
from bridgehead.apiserver.resources.shared.int_or_percent import is_zero, validate_amount, validate_not_more_than_all
from bridgehead.objects.names import check_dns1123_subdomain

from .workload_strategy import ROLLING_FIELDS, WorkloadStrategy, set_rolling_update, shown_strategy

_NO_PODS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_STRATEGIES = ("RollingUpdate", "OnDelete")
# The annotation for the former field `templateGeneration`. Only the server changes it.
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(WorkloadStrategy):
    kind = "daemonset"
    owner = "DaemonSet"
    needs_selector = False
    status_counts = (
        *_NO_PODS,
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

    def _refuse_selector(self, selector: Field, spec: Field) -> None:
        self._validate_pods(spec)

    def _validate_strategy(self, spec: Field) -> None:
        _validate_update_strategy(spec.at("updateStrategy", {}))


def _set_template_generation(daemon_set: JsonObject, generation: int) -> None:
    annotations = daemon_set.setdefault("metadata", {}).setdefault("annotations", {})
    annotations[_TEMPLATE_GENERATION] = str(generation)


def _validate_update_strategy(strategy: Field) -> None:
    if strategy.get("type") not in _STRATEGIES:
        strategy.showing(shown_strategy(strategy.value, ROLLING_FIELDS)).not_supported(_STRATEGIES)
        return
    if strategy.get("type") == "OnDelete":
        return
    rolling = strategy.at("rollingUpdate")
    unavailable, surge = rolling.at("maxUnavailable", 0), rolling.at("maxSurge", 0)
    for amount in (unavailable, surge):
        validate_amount(amount)
    for amount in (unavailable, surge):
        validate_not_more_than_all(amount)
    if is_zero(unavailable.value) and is_zero(surge.value):
        unavailable.required("cannot be 0 when maxSurge is 0")
    if not is_zero(unavailable.value) and not is_zero(surge.value):
        surge.invalid("may not be set when maxUnavailable is non-zero")


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
