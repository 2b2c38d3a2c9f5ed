"""Operators: arithmetic, comparison, equality, membership, index, size.

Pure: no I/O, no clock, no randomness. Source: CEL language definition "Standard definitions", cel-go `common/stdlib`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from bridgehead.apiserver.cel.costs import COMPARISON, CONCATENATION, LIST_CONCATENATION, MEMBERSHIP
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.values import (
    Duration,
    Frame,
    Timestamp,
    Uint,
    cel_type,
    check_int,
    check_uint,
    contains,
    equal,
    lookup,
    optional_lookup,
)

from .times import check_duration, check_timestamp


def _add_lists(frame: Frame, one: list[Any], other: list[Any]) -> list[Any]:
    frame.do(len(one) + len(other))
    return one + other


def _divide(one: int, other: int) -> int:
    """Divide integers, rounded towards zero."""
    if other == 0:
        raise EvaluationError("division by zero")
    quotient = abs(one) // abs(other)
    return check_int(quotient if (one < 0) == (other < 0) else -quotient)


def _modulo(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("modulus by zero")
    remainder = abs(one) % abs(other)
    return remainder if one >= 0 else -remainder


def _divide_doubles(one: float, other: float) -> float:
    if other == 0:
        if one == 0 or math.isnan(one):
            return math.nan
        return math.copysign(math.inf, one) * math.copysign(1, other)
    return one / other


def _unsigned_division(work: Callable[[int, int], int], problem: str) -> Callable[[int, int], Uint]:
    def run(one: int, other: int) -> Uint:
        if other == 0:
            raise EvaluationError(problem)
        return Uint(work(one, other))

    return run


def _multiply_doubles(one: float, other: float) -> float:
    return one * other


def _moved(moment: Timestamp, by: int) -> Timestamp:
    return check_timestamp(int(moment) + by, moment.offset)


def _comparisons(compare: Callable[[Any, Any], bool]) -> tuple[Overload, ...]:
    numbers = ("int", "uint", "double")
    mixed = [overload(f"({one}, {other}) -> bool", compare) for one in numbers for other in numbers]
    others = [overload(f"({one}, {one}) -> bool", compare) for one in ("bool", "timestamp", "duration")]
    sized = [overload(f"({one}, {one}) -> bool", compare, COMPARISON) for one in ("string", "bytes")]
    return (*mixed, *others, *sized)


def _is_in_map(key: Any, container: Mapping[Any, Any]) -> bool:
    if cel_type(key).kind in ("list", "map"):
        raise EvaluationError("unsupported key type")
    return key in container


_SIZES = [overload(f"({one}) -> int", len) for one in ("string", "bytes", "list(A)", "map(A, B)")]

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "_+_": (
        overload("(int, int) -> int", lambda one, other: check_int(one + other)),
        overload("(uint, uint) -> uint", lambda one, other: check_uint(one + other)),
        overload("(double, double) -> double", operator.add),
        overload("(string, string) -> string", operator.add, CONCATENATION),
        overload("(bytes, bytes) -> bytes", operator.add, CONCATENATION),
        overload("(list(A), list(A)) -> list(A)", _add_lists, LIST_CONCATENATION, needs_frame=True),
        overload("(duration, duration) -> duration", lambda one, other: check_duration(int(one) + other)),
        overload("(timestamp, duration) -> timestamp", _moved),
        overload("(duration, timestamp) -> timestamp", lambda one, other: _moved(other, one)),
    ),
    "_-_": (
        overload("(int, int) -> int", lambda one, other: check_int(one - other)),
        overload("(uint, uint) -> uint", lambda one, other: check_uint(int(one) - other)),
        overload("(double, double) -> double", operator.sub),
        overload("(duration, duration) -> duration", lambda one, other: check_duration(int(one) - other)),
        overload("(timestamp, duration) -> timestamp", lambda one, other: _moved(one, -other)),
        overload("(timestamp, timestamp) -> duration", lambda one, other: check_duration(int(one) - other)),
    ),
    "_*_": (
        overload("(int, int) -> int", lambda one, other: check_int(one * other)),
        overload("(uint, uint) -> uint", lambda one, other: check_uint(one * other)),
        overload("(double, double) -> double", _multiply_doubles),
    ),
    "_/_": (
        overload("(int, int) -> int", _divide),
        overload("(uint, uint) -> uint", _unsigned_division(operator.floordiv, "division by zero")),
        overload("(double, double) -> double", _divide_doubles),
    ),
    "_%_": (
        overload("(int, int) -> int", _modulo),
        overload("(uint, uint) -> uint", _unsigned_division(operator.mod, "modulus by zero")),
    ),
    "-_": (
        overload("(int) -> int", lambda value: check_int(-value)),
        overload("(double) -> double", operator.neg),
        overload("(duration) -> duration", lambda value: Duration(-value)),
    ),
    "!_": (overload("(bool) -> bool", operator.not_),),
    "_?_:_": (overload("(bool, A, A) -> A", lambda *values: None),),
    "_==_": (overload("(A, A) -> bool", equal, COMPARISON, needs_frame=True),),
    "_!=_": (overload("(A, A) -> bool", lambda frame, *pair: not equal(frame, *pair), COMPARISON, needs_frame=True),),
    "_<_": _comparisons(operator.lt),
    "_<=_": _comparisons(operator.le),
    "_>_": _comparisons(operator.gt),
    "_>=_": _comparisons(operator.ge),
    "@in": (
        overload(
            "(A, list(A)) -> bool",
            lambda frame, item, items: contains(frame, items, item),
            MEMBERSHIP,
            needs_frame=True,
        ),
        overload("(A, map(A, B)) -> bool", _is_in_map),
    ),
    "_[_]": (
        overload("(list(A), int) -> A", lookup),
        overload("(map(A, B), A) -> B", lookup),
        overload("(optional(list(A)), int) -> optional(A)", lookup),
        overload("(optional(map(A, B)), A) -> optional(B)", lookup),
    ),
    "_[?_]": (
        overload("(list(A), int) -> optional(A)", optional_lookup),
        overload("(map(A, B), A) -> optional(B)", optional_lookup),
        overload("(optional(list(A)), int) -> optional(A)", optional_lookup),
        overload("(optional(map(A, B)), A) -> optional(B)", optional_lookup),
    ),
    "size": (
        *_SIZES,
        *(overload(f"{one}.() -> int", len) for one in ("string", "bytes", "list(A)", "map(A, B)")),
    ),
}
