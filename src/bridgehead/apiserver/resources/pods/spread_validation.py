"""Validation of `topologySpreadConstraints` in pods and pod templates.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes
`validateTopologySpreadConstraints`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector

from .label_keys import validate_label_keys

_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_POSITIVE = "must be greater than zero"


def validate_spread(path: str, constraints: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    last_of = {_kind(constraint): index for index, constraint in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        item = f"{path}[{index}]"
        skew = constraint.get("maxSkew", 0)
        if skew <= 0:
            errors.append(field.invalid(f"{item}.maxSkew", skew, _POSITIVE))
        if not constraint.get("topologyKey"):
            errors.append(field.required(f"{item}.topologyKey", "can not be empty"))
        action = constraint.get("whenUnsatisfiable", "")
        errors += field.one_of(f"{item}.whenUnsatisfiable", action, _UNSATISFIABLE)
        kind = _kind(constraint)
        if last_of[kind] > index:
            errors.append(field.duplicate(f"{item}.{{topologyKey, whenUnsatisfiable}}", kind))
        errors += _validate_domains(f"{item}.minDomains", constraint.get("minDomains"), action)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if name in constraint:
                errors += field.one_of(f"{item}.{name}", constraint[name], _POLICIES)
        errors += validate_label_keys(item, constraint)
        errors += field.errors_below(
            f"{item}.labelSelector", validate_label_selector, constraint.get("labelSelector", {})
        )
    return errors


def _kind(constraint: JsonObject) -> str:
    """Return what no two constraints of a pod may have in common, as errors show it."""
    return f"{{{constraint.get('topologyKey', '')}, {constraint.get('whenUnsatisfiable', '')}}}"


def _validate_domains(path: str, domains: int | None, action: str) -> list[FieldError]:
    if domains is None:
        return []
    errors = [] if domains > 0 else [field.invalid(path, domains, _POSITIVE)]
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(field.invalid(path, domains, detail))
    return errors
