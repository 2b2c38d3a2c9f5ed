"""Functions of lists, Kubernetes' and the extension's third version, and sets.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `apiserver/pkg/cel/library/lists.go`, cel-go `ext/lists.go`, `ext/sets.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from bridgehead.apiserver.cel.costs import (
    LIST_FLATTENING,
    LIST_RANGE,
    LIST_REVERSAL,
    LIST_SLICE,
    LIST_TRAVERSAL,
    SELF_COMPARISON,
    SET_COMPARISON,
    SET_EQUIVALENCE,
)
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.types import COMPARABLE
from bridgehead.apiserver.cel.values import (
    Duration,
    Frame,
    Uint,
    cel_type,
    check_int,
    check_uint,
    contains,
    equal,
    in_key_order,
)
from bridgehead.apiserver.cel.values import hashable as key_of

from .times import check_duration


def _same_types(items: list[Any]) -> None:
    """Raise EvaluationError unless all elements have one type, as untyped lists may not."""
    if len(set(map(type, items))) > 1 or any(cel_type(item).kind not in COMPARABLE for item in items[:1]):
        raise EvaluationError("no such overload")


def _is_sorted(items: list[Any]) -> bool:
    _same_types(items)
    return all(one <= other for one, other in pairwise(items))


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        _same_types(items)
        return choose(items)

    return run


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    """Return the sum of lists whose element type has `zero`. The elements decide in untyped lists."""

    def run(items: list[Any]) -> Any:
        if not items:
            return zero
        _same_types(items)
        check = _SUMMED.get(type(items[0]))
        if check is None:
            raise EvaluationError("no such overload")
        total = items[0]
        for item in items[1:]:
            total = check(total + item)
        return total

    return run


def _index(frame: Frame, items: list[Any], wanted: Any) -> int:
    return next((index for index, item in enumerate(items) if equal(frame, item, wanted)), -1)


def _last_index(frame: Frame, items: list[Any], wanted: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(frame, items[index], wanted)), -1)


def _are_in(frame: Frame, items: list[Any], others: list[Any]) -> bool:
    """Return whether `items` contains all `others`."""
    frame.do(len(items) + len(others))
    keys = {key for item in items if (key := key_of(item)) is not None}
    for one in others:
        key = key_of(one)
        if (key not in keys) if key is not None else not contains(frame, items, one):
            return False
    return True


def _overlap(frame: Frame, items: list[Any], others: list[Any]) -> bool:
    frame.do(len(items) + len(others))
    keys = {key for item in items if (key := key_of(item)) is not None}
    return any((key in keys) if (key := key_of(one)) is not None else contains(frame, items, one) for one in others)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{call}, start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"{call}, list is length {len(items)}")
    return items[start:end]


def _flatten(frame: Frame, items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if depth == 0 or type(item) is not list:
            frame.do(1)
            flat.append(item)
        else:
            flat += _flatten(frame, item, depth - 1)
    frame.do(len(flat))
    return flat


def _distinct(frame: Frame, items: list[Any]) -> list[Any]:
    keys: set[Any] = set()
    unique: list[Any] = []
    for item in items:
        key = key_of(item)
        if (key in keys) if key is not None else contains(frame, unique, item):
            continue
        if key is not None:
            keys.add(key)
        unique.append(item)
    return unique


_SUMMED: Mapping[type, Callable[[Any], Any]] = {
    int: check_int,
    Uint: check_uint,
    float: float,
    Duration: check_duration,
}
_ZEROS = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "isSorted": tuple(overload(f"list({one}).() -> bool", _is_sorted, LIST_TRAVERSAL) for one in COMPARABLE),
    "sum": tuple(overload(f"list({one}).() -> {one}", _sum(zero), LIST_TRAVERSAL) for one, zero in _ZEROS.items()),
    "min": tuple(overload(f"list({one}).() -> {one}", _extreme("min", min), LIST_TRAVERSAL) for one in COMPARABLE),
    "max": tuple(overload(f"list({one}).() -> {one}", _extreme("max", max), LIST_TRAVERSAL) for one in COMPARABLE),
    "indexOf": (overload("list(A).(A) -> int", _index, LIST_TRAVERSAL, needs_frame=True),),
    "lastIndexOf": (overload("list(A).(A) -> int", _last_index, LIST_TRAVERSAL, needs_frame=True),),
    "slice": (overload("list(A).(int, int) -> list(A)", _slice, LIST_SLICE),),
    "flatten": (
        overload("list(list(A)).() -> list(A)", _flatten, LIST_FLATTENING, needs_frame=True),
        overload("list(dyn).(int) -> list(dyn)", _flatten, LIST_FLATTENING, needs_frame=True),
    ),
    "sort": tuple(
        overload(f"list({one}).() -> list({one})", lambda items: in_key_order(items, items), SELF_COMPARISON)
        for one in COMPARABLE
    ),
    "reverse": (overload("list(A).() -> list(A)", lambda items: items[::-1], LIST_REVERSAL),),
    "distinct": (overload("list(A).() -> list(A)", _distinct, SELF_COMPARISON, needs_frame=True),),
    "lists.range": (overload("(int) -> list(int)", lambda count: list(range(count)), LIST_RANGE),),
    "sets.contains": (overload("(list(A), list(A)) -> bool", _are_in, SET_COMPARISON, needs_frame=True),),
    "sets.equivalent": (
        overload(
            "(list(A), list(A)) -> bool",
            lambda frame, one, other: _are_in(frame, one, other) and _are_in(frame, other, one),
            SET_EQUIVALENCE,
            needs_frame=True,
        ),
    ),
    "sets.intersects": (overload("(list(A), list(A)) -> bool", _overlap, SET_COMPARISON, needs_frame=True),),
}
