"""Conditions of an object as decoded JSON; `objects.meta.find_condition` is the one for typed objects.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.objects.names import check_qualified_name

from . import field

_STATUSES = ("False", "True", "Unknown")
_MAX_REASON, _MAX_MESSAGE = 1024, 32 * 1024
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(_REASON).fullmatch
_NOT_A_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)


def find_condition(conditions: Iterable[JsonObject] | None, type: str) -> JsonObject | None:
    """Return the condition of this type, of which there is at most one."""
    return next((condition for condition in conditions or () if condition.get("type") == type), None)


def validate_conditions(path: str, conditions: Sequence[JsonObject]) -> list[FieldError]:
    """Return errors of conditions of the common form, `metav1.Condition`. Older kinds have forms of their own."""
    errors = []
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        item, type_ = f"{path}[{index}]", condition.get("type", "")
        if type_ in types:
            errors.append(field.duplicate(f"{item}.type", type_))
        types.add(type_)
        errors.extend(_validate_condition(item, condition))
    return errors


def _validate_condition(path: str, condition: JsonObject) -> list[FieldError]:
    type_, reason = condition.get("type", ""), condition.get("reason", "")
    errors = field.invalid_for(f"{path}.type", type_, check_qualified_name(type_))
    errors.extend(field.one_of(f"{path}.status", condition.get("status", ""), _STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(field.invalid(f"{path}.observedGeneration", generation, detail))
    if not condition.get("lastTransitionTime"):
        errors.append(field.required(f"{path}.lastTransitionTime", "must be set"))
    if not reason:
        errors.append(field.required(f"{path}.reason", "must be set"))
    elif not _is_reason(reason):
        errors.append(field.invalid(f"{path}.reason", reason, _NOT_A_REASON))
    limits = (("reason", _MAX_REASON), ("message", _MAX_MESSAGE))
    errors.extend(
        field.too_long(f"{path}.{name}", limit)
        for name, limit in limits
        if len(condition.get(name, "").encode()) > limit
    )
    return errors
