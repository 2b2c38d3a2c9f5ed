"""Common defaults and validation of workloads: selector, template, rolling updates.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/apps/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bridgehead.apiserver.field import Field, internal_value
from bridgehead.apiserver.resource import JsonObject, StatusStrategy
from bridgehead.apiserver.resources.pods import (
    drop_disabled_fields,
    set_spec_defaults,
    validate_template,
    warn_of_template,
)
from bridgehead.apiserver.resources.shared.columns import at
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.apiserver.resources.shared.pod_names import warn_of_pod_names
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.selectors import compile_selector

TEMPLATE = "spec.template"


class WorkloadStrategy(StatusStrategy):
    """Hooks of a workload. Error texts contain `kind`, and `owner`, the kind that creates its pods."""

    kind = ""
    owner = "ReplicaSet"
    # Whether it must have a selector. A selector that is there has to select the template anyway.
    needs_selector = True
    # Whether the names of its pods begin with its own.
    names_pods = False
    # The numbers of its status that may not be negative, and those that may not be more than its replicas.
    status_counts: tuple[str, ...] = ()
    status_parts: tuple[str, ...] = ()
    # Name of the ready replicas in the error about too many available ones.
    ready_replicas = "readyReplicas"
    validates_status_writes = False

    def default(self, obj: JsonObject) -> None:
        template: JsonObject = obj.setdefault("spec", {}).setdefault("template", {})
        template.setdefault("metadata", {})
        set_spec_defaults(template.setdefault("spec", {}))
        drop_disabled_fields(template["spec"])

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, obj: Field) -> None:
        """Validate the spec, in the order of Kubernetes."""
        spec = obj.at("spec", {})
        spec.at("replicas").must_not_be_negative()
        self._validate_selector_and_template(spec)
        self._validate_strategy(spec)
        for name in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
            spec.at(name).must_not_be_negative()

    def _validate_strategy(self, spec: Field) -> None:
        """Validate how pods are replaced when the template changes."""

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            self.validate_status(obj, old)
        else:
            obj.at("spec").at("selector").must_not_change(at(old, "spec", "selector"))

    def validate_status(self, obj: Field, old: JsonObject) -> None:
        """Validate the numbers of pods in a status."""
        status, before = obj.at("status"), old.get("status", {})
        for name in self.status_counts:
            status.at(name).must_not_be_negative()
        replicas, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
        for name in self.status_parts:
            status.at(name, 0).must_be_at_most(replicas, "cannot be greater than status.replicas")
        status.at("availableReplicas", 0).must_be_at_most(ready, f"cannot be greater than {self.ready_replicas}")
        status.at("collisionCount", 0).must_be_at_least(before.get("collisionCount", 0), "cannot be decremented")

    def warnings(self, obj: JsonObject) -> list[str]:
        name = obj.get("metadata", {}).get("name", "")
        return [*(warn_of_pod_names(name) if self.names_pods else ()), *_warn_of_template(obj)]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        return [] if obj.get("spec") == old.get("spec") else _warn_of_template(obj)

    def _validate_selector_and_template(self, spec: Field) -> None:
        selector = spec.at("selector")
        if not selector.must_obey(validate_label_selector):
            self._refuse_selector(selector, spec)
            return
        if selector.value is None:
            if self.needs_selector:
                selector.required()
            add_mismatch(spec)
        elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
            selector.invalid(f"empty selector is invalid for {self.kind}")
        elif not matches(selector.value, spec.value):
            add_mismatch(spec)
        self._validate_pods(spec)

    def _refuse_selector(self, selector: Field, spec: Field) -> None:
        """Add the errors about the template and about an invalid selector as a whole."""
        selector.showing(shown_selector(selector.value)).invalid("invalid label selector")

    def _validate_pods(self, spec: Field) -> None:
        self._validate_template(spec.at("template"), spec.value)
        self._validate_pod(spec.at("template").at("spec", {}))

    def _validate_template(self, template: Field, spec: JsonObject) -> None:
        """Validate the template of the workload `spec`."""
        validate_template(template)

    def _validate_pod(self, pod: Field) -> None:
        # These pods are replaced when they end, so pods that are meant to end are not allowed.
        pod.at("restartPolicy", "").must_be_one_of(("Always",))
        pod.at("activeDeadlineSeconds").must_not_exist(f"activeDeadlineSeconds in {self.owner} is not Supported")


def _warn_of_template(obj: JsonObject) -> list[str]:
    return warn_of_template(TEMPLATE, obj.get("spec", {}).get("template", {}))


def matches(selector: JsonObject, spec: JsonObject) -> bool:
    """Whether a valid selector selects the pods of the template."""
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    return compile_selector(msgspec.convert(selector, LabelSelector)).matches(labels)


def add_mismatch(spec: Field) -> None:
    """Add the error that the selector does not select the pods of the template."""
    spec.at("template").at("metadata").at("labels").invalid("`selector` does not match template `labels`")


def shown_selector(selector: JsonObject) -> JsonObject:
    """Return a selector as errors show it, with its fields in the order of their type."""
    return {name: selector[name] for name in ("matchLabels", "matchExpressions") if selector.get(name)}


def shown_strategy(strategy: JsonObject, fields: Mapping[str, Any]) -> JsonObject:
    """Return an update strategy as errors show it. `fields` are those of its `rollingUpdate`."""
    rolling = strategy.get("rollingUpdate")
    shown = None if rolling is None else internal_value(rolling, fields)
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
