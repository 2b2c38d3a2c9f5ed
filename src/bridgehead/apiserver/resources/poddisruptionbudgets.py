"""PodDisruptionBudget (policy/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidatePodDisruptionBudgetSpec`, `ValidatePodDisruptionBudgetStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, number_column
from bridgehead.apiserver.resources.shared.conditions import validate_conditions
from bridgehead.apiserver.resources.shared.int_or_percent import validate_share
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.objects.names import check_path_segment

# Numbers that the status always shows.
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


# The fields of the spec in Kubernetes' internal type, which errors show.
_FIELDS: Mapping[str, Any] = {
    "minAvailable": None,
    "selector": None,
    "maxUnavailable": None,
    "unhealthyPodEvictionPolicy": None,
}


class PodDisruptionBudgetStrategy(StatusStrategy):
    def prepare_create(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        obj["status"] = dict.fromkeys(_COUNTS, 0) | obj.get("status", {})

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            errors.append(
                field.invalid(
                    "spec", field.internal_value(spec, _FIELDS), "minAvailable and maxUnavailable cannot be both set"
                )
            )
        for name in ("minAvailable", "maxUnavailable"):
            if name in spec:
                errors.extend(field.errors_below(f"spec.{name}", validate_share, spec[name]))
        errors.extend(field.errors_below("spec.selector", validate_label_selector, spec.get("selector", {})))
        if "unhealthyPodEvictionPolicy" in spec:
            policy = spec["unhealthyPodEvictionPolicy"]
            errors.extend(field.one_of("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource != "status":
            return []
        status = obj.get("status", {})
        errors = field.errors_below("status.conditions", validate_conditions, status.get("conditions", ()))
        for name in _COUNTS:
            errors.extend(field.non_negative(f"status.{name}", status.get(name, 0)))
        return errors


def _amount_column(name: str, spec_field: str) -> Column:
    def cell(obj: JsonObject, now: float) -> str:
        value = at(obj, "spec", spec_field)
        return "N/A" if value is None else str(value)

    return Column(name, cell)


RESOURCE = Resource(
    group="policy",
    version="v1",
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    singular="poddisruptionbudget",
    namespaced=True,
    short_names=("pdb",),
    subresources=("status",),
    strategy=PodDisruptionBudgetStrategy(),
    columns=(
        NAME,
        _amount_column("Min Available", "minAvailable"),
        _amount_column("Max Unavailable", "maxUnavailable"),
        number_column("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    ),
    has_generation=True,
    allows_unconditional_update=False,
    check_name=check_path_segment,
)
