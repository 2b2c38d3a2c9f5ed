"""Common defaults and validation of workloads: selector, template, rolling updates.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/apps/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject, StatusStrategy
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
    # Whether the names of its pods begin with its own.
    names_pods = False
    # The numbers of its status that may not be negative, and those that may not be more than its replicas.
    status_counts: tuple[str, ...] = ()
    status_parts: tuple[str, ...] = ()
    # How the error about too many available replicas names the ready ones.
    ready_replicas = "readyReplicas"
    validates_status_writes = False

    def default(self, obj: JsonObject) -> None:
        template: JsonObject = obj.setdefault("spec", {}).setdefault("template", {})
        template.setdefault("metadata", {})
        set_spec_defaults(template.setdefault("spec", {}))
        drop_disabled_fields(template["spec"])

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Validate the spec, in the order of Kubernetes."""
        spec = obj.get("spec", {})
        errors = field.non_negative("spec.replicas", spec.get("replicas", 0))
        errors.extend(self._validate_selector_and_template(spec))
        errors.extend(self._validate_strategy(spec))
        for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
            errors.extend(field.non_negative(f"spec.{name}", spec.get(name, 0)))
        return errors

    def _validate_strategy(self, spec: JsonObject) -> list[FieldError]:
        """Validate how pods are replaced when the template changes."""
        return []

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource == "status":
            return self.validate_status(obj.get("status", {}), old.get("status", {}))
        selector = obj.get("spec", {}).get("selector")
        if selector == old.get("spec", {}).get("selector"):
            return []
        return [field.invalid("spec.selector", selector, field.IMMUTABLE)]

    def validate_status(self, status: JsonObject, before: JsonObject) -> list[FieldError]:
        return [
            *validate_counts(status, self.status_counts, self.status_parts, self.ready_replicas),
            *validate_collisions(status, before),
        ]

    def warnings(self, obj: JsonObject) -> list[str]:
        name = obj.get("metadata", {}).get("name", "")
        return [*(warn_of_pod_names(name) if self.names_pods else ()), *_warn_of_template(obj)]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        return [] if obj.get("spec") == old.get("spec") else _warn_of_template(obj)

    def _validate_selector_and_template(self, spec: JsonObject) -> list[FieldError]:
        path, selector = "spec.selector", spec.get("selector")
        if selector is None:
            return [field.required(path), mismatch(spec), *self._validate_pods(spec)]
        if errors := field.errors_below(path, validate_label_selector, selector):
            return [*errors, *self._refuse_selector(path, selector, spec)]
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(field.invalid(path, selector, f"empty selector is invalid for {self.kind}"))
        elif not matches(selector, spec):
            errors.append(mismatch(spec))
        return [*errors, *self._validate_pods(spec)]

    def _refuse_selector(self, path: str, selector: JsonObject, spec: JsonObject) -> list[FieldError]:
        """Return the errors about the template and about an invalid selector as a whole."""
        return [field.invalid(path, shown_selector(selector), "invalid label selector")]

    def _validate_pods(self, spec: JsonObject) -> list[FieldError]:
        pod = spec.get("template", {}).get("spec", {})
        return [*self._validate_template(spec), *self._validate_pod(pod)]

    def _validate_template(self, spec: JsonObject) -> list[FieldError]:
        return field.errors_below(TEMPLATE, validate_template, spec.get("template", {}))

    def _validate_pod(self, pod: JsonObject) -> list[FieldError]:
        # These pods are replaced when they end, so pods that are meant to end are not allowed.
        errors = field.one_of(f"{TEMPLATE}.spec.restartPolicy", pod.get("restartPolicy"), ("Always",))
        if "activeDeadlineSeconds" in pod:
            detail = f"activeDeadlineSeconds in {self.owner} is not Supported"
            errors.append(field.forbidden(f"{TEMPLATE}.spec.activeDeadlineSeconds", detail))
        return errors


def _warn_of_template(obj: JsonObject) -> list[str]:
    return warn_of_template(TEMPLATE, obj.get("spec", {}).get("template", {}))


def matches(selector: JsonObject, spec: JsonObject) -> bool:
    """Whether a valid selector selects the pods of the template."""
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    return compile_selector(msgspec.convert(selector, LabelSelector)).matches(labels)


def mismatch(spec: JsonObject) -> FieldError:
    """Return the error that the selector does not select the pods of the template."""
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    return field.invalid(f"{TEMPLATE}.metadata.labels", labels, "`selector` does not match template `labels`")


def shown_selector(selector: JsonObject) -> JsonObject:
    """Return a selector as errors show it, with its fields in the order of their type."""
    return {name: selector[name] for name in ("matchLabels", "matchExpressions") if selector.get(name)}


def shown_strategy(strategy: JsonObject, fields: Mapping[str, Any]) -> JsonObject:
    """Return an update strategy as errors show it. `fields` are those of its `rollingUpdate`."""
    rolling = strategy.get("rollingUpdate")
    shown = None if rolling is None else field.internal_value(rolling, fields)
    return {"Type": strategy.get("type", ""), "RollingUpdate": shown}


# The fields of `rollingUpdate` of Deployments and DaemonSets in Kubernetes' internal types.
ROLLING_FIELDS: Mapping[str, Any] = {"maxUnavailable": 0, "maxSurge": 0}


def set_rolling_update(strategy: JsonObject, unavailable: int | str, surge: int | str) -> None:
    """Set the defaults of an update strategy: RollingUpdate with these amounts."""
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", unavailable)
        rolling.setdefault("maxSurge", surge)
