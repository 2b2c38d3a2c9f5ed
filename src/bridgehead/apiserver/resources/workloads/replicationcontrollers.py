"""ReplicationController (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidateReplicationControllerSpec`, `SetDefaults_ReplicationController`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.pods import validate_template
from bridgehead.apiserver.resources.shared import field
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

from .workload_strategy import WorkloadStrategy


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

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = field.non_negative("spec.minReadySeconds", spec.get("minReadySeconds", 0))
        selector: Mapping[str, str] = spec.get("selector", {})
        if not selector:
            errors.append(field.required("spec.selector"))
        errors += field.non_negative("spec.replicas", spec.get("replicas", 0))
        template = spec.get("template")
        if template is None:
            return [*errors, field.required("spec.template")]
        labels = template.get("metadata", {}).get("labels")
        if selector and not selector.items() <= (labels or {}).items():
            detail = "`selector` does not match template `labels`"
            errors.append(field.invalid("spec.template.metadata.labels", labels, detail))
        errors += field.errors_below("spec.template", validate_template, template)
        return errors + self._validate_pod(template.get("spec", {}))

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        # Its selector may change.
        return self.validate_status(obj.get("status", {}), old.get("status", {})) if subresource == "status" else []


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
