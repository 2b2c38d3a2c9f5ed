"""PodDisruptionBudget (policy/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidatePodDisruptionBudgetSpec`, `ValidatePodDisruptionBudgetStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.apiserver.field import Field, internal_value
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.objects.names import check_path_segment

from .shared.columns import AGE, NAME, at, number_column
from .shared.conditions import validate_conditions
from .shared.int_or_percent import validate_share
from .shared.metadata_validation import validate_label_selector

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

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec")
        amounts = spec.at("minAvailable"), spec.at("maxUnavailable")
        if all(amount.value is not None for amount in amounts):
            shown = spec.showing(internal_value(spec.value, _FIELDS))
            shown.invalid("minAvailable and maxUnavailable cannot be both set")
        for amount in amounts:
            amount.must_obey(validate_share)
        validate_label_selector(spec.at("selector"))
        spec.at("unhealthyPodEvictionPolicy").must_be_one_of(_EVICTION_POLICIES)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource != "status":
            return
        status = obj.at("status")
        validate_conditions(status.at("conditions"))
        for name in _COUNTS:
            status.at(name).must_not_be_negative()


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
