"""DaemonSet (apps/v1): its entry in the table, its defaults and its rules."""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import AGE, NAME, at, format_label_selector, format_labels, number_column, template_columns
from .workloads import WorkloadStrategy

_NO_PODS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


class DaemonSetStrategy(WorkloadStrategy):
    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("revisionHistoryLimit", 10)
        strategy = spec.setdefault("updateStrategy", {})
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = dict.fromkeys(_NO_PODS, 0)


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
    check_name=check_dns1123_subdomain,
)
