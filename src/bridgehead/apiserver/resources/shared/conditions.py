"""Conditions of an object as decoded JSON; `objects.meta.find_condition` is the one for typed objects.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.names import check_qualified_name

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


def validate_conditions(conditions: Field) -> None:
    """Validate conditions of the common form, `metav1.Condition`. Older kinds have forms of their own."""
    types: set[str] = set()
    for condition in conditions.each():
        condition.at("type", "").must_not_repeat(types)
        _validate_condition(condition)


def _validate_condition(condition: Field) -> None:
    reason, generation = condition.at("reason"), condition.at("observedGeneration", 0)
    condition.at("type", "").must_pass(check_qualified_name)
    condition.at("status", "").must_be_one_of(_STATUSES)
    generation.must_be_at_least(0, "must be greater than or equal to zero")
    condition.at("lastTransitionTime").must_be_set("must be set")
    if reason.must_be_set("must be set") and not _is_reason(reason.value):
        reason.invalid(_NOT_A_REASON)
    reason.must_have_at_most_bytes(_MAX_REASON)
    condition.at("message").must_have_at_most_bytes(_MAX_MESSAGE)
