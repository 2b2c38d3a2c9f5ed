"""Validation of `topologySpreadConstraints` in pods and pod templates.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes
`validateTopologySpreadConstraints`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector

from .label_keys import validate_label_keys

_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_POSITIVE = "must be greater than zero"


def validate_spread(constraints: Field) -> None:
    last_of = {_kind(constraint): index for index, constraint in enumerate(constraints.value or ())}
    for index, constraint in enumerate(constraints.each()):
        action = constraint.at("whenUnsatisfiable", "")
        constraint.at("maxSkew", 0).must_be_at_least(1, _POSITIVE)
        constraint.at("topologyKey").must_be_set("can not be empty")
        action.must_be_one_of(_UNSATISFIABLE)
        kind = _kind(constraint.value)
        if last_of[kind] > index:
            constraint.at("{topologyKey, whenUnsatisfiable}").showing(kind).duplicate()
        if "minDomains" in constraint.value:
            _validate_domains(constraint.at("minDomains"), action.value)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            constraint.at(name).must_be_one_of(_POLICIES)
        validate_label_keys(constraint)
        validate_label_selector(constraint.at("labelSelector"))


def _kind(constraint: JsonObject) -> str:
    """Return what no two constraints of a pod may have in common, as errors show it."""
    return f"{{{constraint.get('topologyKey', '')}, {constraint.get('whenUnsatisfiable', '')}}}"


def _validate_domains(domains: Field, action: str) -> None:
    domains.must_be_at_least(1, _POSITIVE)
    if action != "DoNotSchedule":
        domains.invalid(f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}")
