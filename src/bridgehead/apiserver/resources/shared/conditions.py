"""Conditions of an object as decoded JSON; `objects.meta.find_condition` is the one for typed objects.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.apiserver.resource import JsonObject


def find_condition(conditions: Iterable[JsonObject] | None, type: str) -> JsonObject | None:
    """Return the condition of this type, of which there is at most one."""
    return next((condition for condition in conditions or () if condition.get("type") == type), None)
