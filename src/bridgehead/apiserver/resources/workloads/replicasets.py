"""ReplicaSet (apps/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.shared.columns import (
    AGE,
    NAME,
    at,
    format_label_selector,
    number_column,
    selectable,
    template_columns,
)
from bridgehead.objects.names import check_dns1123_subdomain

from .workload_strategy import WorkloadStrategy


class ReplicaSetStrategy(WorkloadStrategy):
    kind = "deployment"  # Kubernetes' texts have "deployment" for both
    names_pods = True
    status_counts = (
        *("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        *("terminatingReplicas", "observedGeneration"),
    )
    status_parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        obj["spec"].setdefault("replicas", 1)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"replicas": 0}

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        obj.setdefault("status", {}).setdefault("replicas", 0)

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec", {})
        spec.at("replicas").must_not_be_negative()
        spec.at("minReadySeconds").must_not_be_negative()
        self._validate_selector_and_template(spec)


RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="ReplicaSet",
    plural="replicasets",
    singular="replicaset",
    namespaced=True,
    short_names=("rs",),
    categories=("all",),
    subresources=("status", "scale"),
    strategy=ReplicaSetStrategy(),
    columns=(
        NAME,
        number_column("Desired", "spec", "replicas"),
        number_column("Current", "status", "replicas"),
        number_column("Ready", "status", "readyReplicas"),
        AGE,
        *template_columns(lambda replica_set: format_label_selector(at(replica_set, "spec", "selector"))),
    ),
    selectable={"status.replicas": selectable("status", "replicas", default="0")},
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
