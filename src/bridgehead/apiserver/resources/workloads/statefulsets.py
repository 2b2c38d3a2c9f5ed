"""StatefulSet (apps/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `SetDefaults_StatefulSet`, `ValidateStatefulSet`, `ValidateStatefulSetUpdate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.apiserver.field import Field, internal_value, show_value
from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.apiserver.resources.pods import validate_template
from bridgehead.apiserver.resources.shared.claim_validation import validate_claim_spec, warn_of_claim_spec
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, template_columns
from bridgehead.apiserver.resources.shared.int_or_percent import is_zero, validate_amount, validate_not_more_than_all
from bridgehead.apiserver.resources.storage import set_claim_defaults
from bridgehead.objects.names import check_dns1123_label

from .workload_strategy import WorkloadStrategy, shown_selector, shown_strategy

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

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec", {})
        policy = spec.at("podManagementPolicy")
        if policy.value not in ("OrderedReady", "Parallel"):
            policy.invalid("must be 'OrderedReady' or 'Parallel'")
        _validate_update_strategy(spec.at("updateStrategy", {}))
        retention = spec.at("persistentVolumeClaimRetentionPolicy", {})
        for name in retention.value:
            retention.at(name).must_be_one_of(_RETENTION_POLICIES)
        for number in (spec.at("replicas"), spec.at("minReadySeconds"), spec.at("ordinals").at("start")):
            number.must_not_be_negative()
        self._validate_selector_and_template(spec)

    def _refuse_selector(self, selector: Field, spec: Field) -> None:
        selector.invalid_as_whole(show_value(shown_selector(selector.value)))  # so in Kubernetes, without a reason
        self._validate_pod(spec.at("template").at("spec", {}))

    def validate_create(self, obj: Field) -> None:
        spec = obj.at("spec")
        spec.if_set("serviceName").must_pass(check_dns1123_label)
        for claim in spec.at("volumeClaimTemplates").each():
            validate_claim_spec(claim.at("spec"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            self.validate_status(obj, old)
        elif _fixed(obj.value) != _fixed(old):
            obj.at("spec").forbidden(_FIXED)

    def warnings(self, obj: JsonObject) -> list[str]:
        return [*super().warnings(obj), *_warn_of_spec(obj.get("spec", {}), "")]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        # Kubernetes names these paths differently.
        return [*super().update_warnings(obj, old), *_warn_of_spec(obj.get("spec", {}), ".Spec")]

    def _validate_template(self, template: Field, spec: JsonObject) -> None:
        """Validate the template with the volumes that the pods will get from the templates of claims."""
        pod = template.get("spec", {})
        claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
        # A claim takes the place of a volume of its name.
        kept = [volume for volume in pod.get("volumes", ()) if volume.get("name") not in claims]
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        with_claims = {**pod, "volumes": [*kept, *made]}
        validate_template(template.showing({**(template.value or {}), "spec": with_claims}))


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


def _validate_update_strategy(strategy: Field) -> None:
    kind, rolling = strategy.get("type"), strategy.at("rollingUpdate")
    if kind not in ("RollingUpdate", "OnDelete"):
        strategy.showing(shown_strategy(strategy.value, _ROLLING_FIELDS)).invalid(
            "must be 'RollingUpdate' or 'OnDelete'"
        )
    elif rolling.value is None:
        return
    elif kind == "OnDelete":
        shown = internal_value(rolling.value, _ROLLING_FIELDS)
        rolling.showing(shown).invalid("only allowed for updateStrategy 'RollingUpdate'")
    else:
        unavailable = rolling.at("maxUnavailable", 1)
        rolling.at("partition").must_not_be_negative()
        validate_amount(unavailable)
        if is_zero(unavailable.value):
            unavailable.invalid("cannot be 0")
        validate_not_more_than_all(unavailable)


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
