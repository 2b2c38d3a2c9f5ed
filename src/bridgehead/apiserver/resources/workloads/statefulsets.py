"""StatefulSet (apps/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `SetDefaults_StatefulSet`, `ValidateStatefulSet`, `ValidateStatefulSetUpdate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.apiserver.resources.pods import validate_template
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.claim_validation import validate_claim_spec, warn_of_claim_spec
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, template_columns
from bridgehead.apiserver.resources.shared.int_or_percent import is_zero, validate_amount, validate_not_more_than_all
from bridgehead.apiserver.resources.storage import set_claim_defaults
from bridgehead.objects.names import check_dns1123_label

from .workload_strategy import TEMPLATE, WorkloadStrategy, shown_selector, shown_strategy

_MUTABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
# The fields of `rollingUpdate` in Kubernetes' internal type, which errors show.
_ROLLING_FIELDS: Mapping[str, Any] = {
    "partition": 0,
    "maxUnavailable": None,
}
_RETENTION_POLICIES = ("Retain", "Delete")
_CLAIMS = "spec.volumeClaimTemplates"
# Numbers that the status always shows.
_COUNTS = ("replicas", "availableReplicas")


class StatefulSetStrategy(WorkloadStrategy):
    kind = "statefulset"
    owner = "StatefulSet"
    status_counts = (
        *("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        *("observedGeneration", "collisionCount"),
    )
    status_parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    ready_replicas = "status.readyReplicas"

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
        strategy: JsonObject = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
            strategy["rollingUpdate"].setdefault("partition", 0)
            strategy["rollingUpdate"].setdefault("maxUnavailable", 1)
        policy: JsonObject = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for name in ("whenDeleted", "whenScaled"):
            policy[name] = policy.get(name) or "Retain"
        for claim in spec.get("volumeClaimTemplates", ()):
            claim.update({"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
            set_claim_defaults(claim)
        spec.setdefault("serviceName", "")
        if "ordinals" in spec:
            spec["ordinals"].setdefault("start", 0)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        obj["status"] = dict.fromkeys(_COUNTS, 0) | obj.get("status", {})

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        policy = spec.get("podManagementPolicy")
        errors = []
        if policy not in ("OrderedReady", "Parallel"):
            detail = "must be 'OrderedReady' or 'Parallel'"
            errors.append(field.invalid("spec.podManagementPolicy", policy, detail))
        errors.extend(_validate_update_strategy("spec.updateStrategy", spec.get("updateStrategy", {})))
        for name, kept in spec.get("persistentVolumeClaimRetentionPolicy", {}).items():
            path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            errors.extend(field.one_of(path, kept, _RETENTION_POLICIES))
        for name in ("replicas", "minReadySeconds"):
            errors.extend(field.non_negative(f"spec.{name}", spec.get(name, 0)))
        if "ordinals" in spec:
            errors.extend(field.non_negative("spec.ordinals.start", spec["ordinals"].get("start", 0)))
        return [*errors, *self._validate_selector_and_template(spec)]

    def _refuse_selector(self, path: str, selector: JsonObject, spec: JsonObject) -> list[FieldError]:
        shown = field.invalid(path, shown_selector(selector), "").message.removesuffix(": ")
        return [FieldError("FieldValueInvalid", path, shown), *self._validate_pod(_pod_of(spec))]

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = []
        if name := spec.get("serviceName"):
            errors.extend(field.invalid_for("spec.serviceName", name, check_dns1123_label(name)))
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ())):
            errors.extend(field.errors_below(f"{_CLAIMS}[{index}].spec", validate_claim_spec, claim.get("spec", {})))
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource == "status":
            return self.validate_status(obj.get("status", {}), old.get("status", {}))
        errors = []
        if _fixed(obj) != _fixed(old):
            errors.append(field.forbidden("spec", _FIXED))
        return errors

    def warnings(self, obj: JsonObject) -> list[str]:
        return [*super().warnings(obj), *_warn_of_spec(obj.get("spec", {}), "")]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        # Kubernetes names these paths differently.
        return [*super().update_warnings(obj, old), *_warn_of_spec(obj.get("spec", {}), ".Spec")]

    def _validate_template(self, spec: JsonObject) -> list[FieldError]:
        """Validate the template with the volumes that the pods will get from the templates of claims."""
        template = spec.get("template", {})
        pod = template.get("spec", {})
        claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
        # A claim takes the place of a volume of its name.
        kept = [volume for volume in pod.get("volumes", ()) if volume.get("name") not in claims]
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        return field.errors_below(TEMPLATE, validate_template, {**template, "spec": {**pod, "volumes": [*kept, *made]}})


def _warn_of_spec(spec: JsonObject, suffix: str) -> list[str]:
    warnings = [
        warning
        for index, claim in enumerate(spec.get("volumeClaimTemplates", ()))
        for warning in warn_of_claim_spec(f"{_CLAIMS}[{index}]{suffix}", claim.get("spec", {}))
    ]
    if spec.get("revisionHistoryLimit", 0) < 0:
        warnings.append(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        )
    return warnings


def _pod_of(spec: JsonObject) -> JsonObject:
    pod: JsonObject = spec.get("template", {}).get("spec", {})
    return pod


def _validate_update_strategy(path: str, strategy: JsonObject) -> list[FieldError]:
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            if rolling is None:
                return []
            shown = field.internal_value(rolling, _ROLLING_FIELDS)
            return [field.invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")]
        case "RollingUpdate":
            return [] if rolling is None else _validate_rolling_update(f"{path}.rollingUpdate", rolling)
    return [field.invalid(path, shown_strategy(strategy, _ROLLING_FIELDS), "must be 'RollingUpdate' or 'OnDelete'")]


def _validate_rolling_update(path: str, rolling: JsonObject) -> list[FieldError]:
    errors = field.non_negative(f"{path}.partition", rolling.get("partition", 0))
    unavailable = rolling.get("maxUnavailable", 1)
    errors.extend(field.errors_below(f"{path}.maxUnavailable", validate_amount, unavailable))
    if is_zero(unavailable):
        errors.append(field.invalid(f"{path}.maxUnavailable", unavailable, "cannot be 0"))
    errors.extend(field.errors_below(f"{path}.maxUnavailable", validate_not_more_than_all, unavailable))
    return errors


def _fixed(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.get("spec", {}).items() if name not in _MUTABLE}


def _ready_cell(stateful_set: JsonObject, now: float) -> str:
    return f"{at(stateful_set, 'status', 'readyReplicas') or 0}/{at(stateful_set, 'spec', 'replicas') or 0}"


def _columns() -> Sequence[Column]:
    containers, images, _ = template_columns(lambda stateful_set: "")
    return (
        NAME,
        Column("Ready", _ready_cell, description="Number of the pod with ready state"),
        AGE,
        containers,
        images,
    )


RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="StatefulSet",
    plural="statefulsets",
    singular="statefulset",
    namespaced=True,
    short_names=("sts",),
    categories=("all",),
    subresources=("status", "scale"),
    strategy=StatefulSetStrategy(),
    columns=tuple(_columns()),
    has_generation=True,
    check_name=check_dns1123_label,
)
