"""Deployment (apps/v1): its entry in the table, its defaults and its rules."""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import AGE, NAME, at, format_label_selector, number_column, template_columns
from .workloads import WorkloadStrategy


def _ready_cell(deployment: JsonObject, now: float) -> str:
    return f"{at(deployment, 'status', 'readyReplicas') or 0}/{at(deployment, 'spec', 'replicas') or 0}"


class DeploymentStrategy(WorkloadStrategy):
    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        strategy = spec.setdefault("strategy", {})
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")


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
    check_name=check_dns1123_subdomain,
)
