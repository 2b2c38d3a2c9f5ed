"""Optional values.

Pure: no I/O, no clock, no randomness. Source: cel-go `cel/library.go`, "OptionalTypes".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.values import NONE, Optional, Uint


def _value(held: Optional) -> Any:
    if held.is_present:
        return held.value
    raise EvaluationError("optional.none() dereference")


def _is_zero(value: Any) -> bool:
    return value is None or (not value and type(value) in (bool, int, Uint, float, str, bytes, list, dict))


def _present(items: list[Any]) -> list[Any]:
    return [item.value for item in items if item.is_present]


FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "optional.of": (overload("(A) -> optional(A)", Optional),),
    "optional.ofNonZeroValue": (
        overload("(A) -> optional(A)", lambda value: NONE if _is_zero(value) else Optional(value)),
    ),
    "optional.none": (overload("() -> optional(A)", lambda: NONE),),
    "optional.unwrap": (overload("(list(optional(A))) -> list(A)", _present),),
    "unwrapOpt": (overload("list(optional(A)).() -> list(A)", _present),),
    "first": (overload("list(A).() -> optional(A)", lambda items: Optional(items[0]) if items else NONE),),
    "last": (overload("list(A).() -> optional(A)", lambda items: Optional(items[-1]) if items else NONE),),
    "hasValue": (overload("optional(A).() -> bool", lambda held: held.is_present),),
    "value": (overload("optional(A).() -> A", _value),),
    "or": (
        overload("optional(A).(optional(A)) -> optional(A)", lambda held, other: held if held.is_present else other),
    ),
    "orValue": (overload("optional(A).(A) -> A", lambda held, other: held.value if held.is_present else other),),
}
