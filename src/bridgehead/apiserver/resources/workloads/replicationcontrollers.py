"""ReplicationController (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidateReplicationControllerSpec`, `SetDefaults_ReplicationController`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.pods import validate_template
from bridgehead.apiserver.resources.shared.columns import (
    AGE,
    NAME,
    at,
    format_labels,
    number_column,
    selectable,
    template_columns,
)
from bridgehead.objects.names import check_dns1123_subdomain

from .workload_strategy import WorkloadStrategy, add_mismatch


class ReplicationControllerStrategy(WorkloadStrategy):
    owner = "ReplicationController"
    names_pods = True
    status_counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
    status_parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")

    def default(self, obj: JsonObject) -> None:
        has_template = "template" in obj.get("spec", {})
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        labels = spec["template"]["metadata"].get("labels")
        if not has_template:
            del spec["template"]  # validation reports that it is missing
        elif labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            metadata = obj.setdefault("metadata", {})
            if not metadata.get("labels"):
                metadata["labels"] = dict(labels)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"replicas": 0}

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        obj.setdefault("status", {}).setdefault("replicas", 0)

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec")
        selector, template = spec.at("selector"), spec.at("template")
        spec.at("minReadySeconds").must_not_be_negative()
        selector.must_be_set()
        spec.at("replicas").must_not_be_negative()
        if not template.must_exist():
            return
        labels = template.at("metadata").get("labels", {})
        if selector and not selector.value.items() <= labels.items():
            add_mismatch(spec)
        validate_template(template)
        self._validate_pod(template.at("spec", {}))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource == "status":  # its selector may change
            self.validate_status(obj, old)


RESOURCE = Resource(
    group="",
    version="v1",
    kind="ReplicationController",
    plural="replicationcontrollers",
    singular="replicationcontroller",
    namespaced=True,
    short_names=("rc",),
    categories=("all",),
    subresources=("status", "scale"),
    strategy=ReplicationControllerStrategy(),
    columns=(
        NAME,
        number_column("Desired", "spec", "replicas"),
        number_column("Current", "status", "replicas"),
        number_column("Ready", "status", "readyReplicas"),
        AGE,
        *template_columns(lambda controller: format_labels(at(controller, "spec", "selector"))),
    ),
    selectable={"status.replicas": selectable("status", "replicas", default="0")},
    has_generation=True,
    orphans_dependents=True,  # as before there was a garbage collector
    check_name=check_dns1123_subdomain,
)
