"""Validation of match conditions, of webhooks and policies.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_qualified_name

_MAX_CONDITIONS = 64

# Returns the errors of an expression at a path.
Check = Callable[[str, str], list[FieldError]]


def validate_match_conditions(path: str, conditions: Sequence[JsonObject], check: Check) -> list[FieldError]:
    errors = []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(field.too_many(path, len(conditions), _MAX_CONDITIONS))
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        item = f"{path}[{index}]"
        name, expression = condition.get("name", ""), condition.get("expression", "").strip()
        if not expression:
            errors.append(field.required(f"{item}.expression"))
        else:
            errors += check(f"{item}.expression", expression)
        errors += field.required_valid(f"{item}.name", name, check_qualified_name)
        if name in names:
            errors.append(field.duplicate(f"{item}.name", name))
        elif name:
            names.add(name)
    return errors
