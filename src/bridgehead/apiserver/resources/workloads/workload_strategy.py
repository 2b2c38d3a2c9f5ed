"""Common defaults and validation of workloads: selector, template, rolling updates.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/apps/validation`.
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.resource import FieldError, JsonObject, StatusStrategy
from bridgehead.apiserver.resources.pods import (
    drop_disabled_fields,
    set_spec_defaults,
    validate_template,
    warn_of_template,
)
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.apiserver.resources.shared.pod_names import warn_of_pod_names
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.selectors import compile_selector

from .status_rules import validate_collisions, validate_counts

TEMPLATE = "spec.template"


class WorkloadStrategy(StatusStrategy):
    """Hooks of a workload. Error texts contain `kind`, and `owner`, the kind that creates its pods."""

    kind = ""
    owner = "ReplicaSet"
    # The numbers of its spec that may not be negative.
    counts: tuple[str, ...] = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    # Whether the names of its pods begin with its own.
    names_pods = False
    # The numbers of its status that may not be negative, and those that may not be more than its replicas.
    status_counts: tuple[str, ...] = ()
    status_parts: tuple[str, ...] = ()

    def default(self, obj: JsonObject) -> None:
        template: JsonObject = obj.setdefault("spec", {}).setdefault("template", {})
        template.setdefault("metadata", {})
        set_spec_defaults(template.setdefault("spec", {}))
        drop_disabled_fields(template["spec"])

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = []
        for name in self.counts:
            errors.extend(field.non_negative(f"spec.{name}", spec.get(name, 0)))
        errors.extend(self._validate_selector(spec))
        errors.extend(self._validate_template(spec))
        return [*errors, *self._validate_pod(spec.get("template", {}).get("spec", {}))]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource == "status":
            return self.validate_status(obj.get("status", {}), old.get("status", {}))
        selector = obj.get("spec", {}).get("selector")
        if selector == old.get("spec", {}).get("selector"):
            return []
        return [field.invalid("spec.selector", selector, field.IMMUTABLE)]

    def validate_status(self, status: JsonObject, before: JsonObject) -> list[FieldError]:
        return [
            *validate_counts(status, self.status_counts, self.status_parts),
            *validate_collisions(status, before),
        ]

    def warnings(self, obj: JsonObject) -> list[str]:
        name = obj.get("metadata", {}).get("name", "")
        return [*(warn_of_pod_names(name) if self.names_pods else ()), *_warn_of_template(obj)]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        return [] if obj.get("spec") == old.get("spec") else _warn_of_template(obj)

    def _validate_selector(self, spec: JsonObject) -> list[FieldError]:
        path = "spec.selector"
        selector = spec.get("selector")
        if selector is None:
            return [field.required(path)]
        errors = validate_label_selector(path, selector)
        if errors:
            return errors
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            return [field.invalid(path, selector, f"empty selector is invalid for {self.kind}")]
        labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
        if not compile_selector(msgspec.convert(selector, LabelSelector)).matches(labels):
            detail = "`selector` does not match template `labels`"
            return [field.invalid(f"{TEMPLATE}.metadata.labels", labels, detail)]
        return []

    def _validate_template(self, spec: JsonObject) -> list[FieldError]:
        return validate_template(TEMPLATE, spec.get("template", {}))

    def _validate_pod(self, pod: JsonObject) -> list[FieldError]:
        # These pods are replaced when they end, so pods that are meant to end are not allowed.
        errors = field.one_of(f"{TEMPLATE}.spec.restartPolicy", pod.get("restartPolicy"), ("Always",))
        if "activeDeadlineSeconds" in pod:
            detail = f"activeDeadlineSeconds in {self.owner} is not Supported"
            errors.append(field.forbidden(f"{TEMPLATE}.spec.activeDeadlineSeconds", detail))
        return errors


def _warn_of_template(obj: JsonObject) -> list[str]:
    return warn_of_template(TEMPLATE, obj.get("spec", {}).get("template", {}))


def set_rolling_update(strategy: JsonObject, unavailable: int | str, surge: int | str) -> None:
    """Set the defaults of an update strategy: RollingUpdate with these amounts."""
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", unavailable)
        rolling.setdefault("maxSurge", surge)
