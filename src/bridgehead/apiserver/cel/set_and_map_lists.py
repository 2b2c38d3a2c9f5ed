"""Lists of the types `set` and `map`: order does not matter when they are compared, and `+` merges.

The list type is that of the left operand's schema. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `apiserver/pkg/cel/common/values.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .declarations import Overload
from .errors import EvaluationError
from .types import Type
from .values import Frame, contains, equal, hashable

Step = Callable[[Frame], Any]


def compile_merging(function: str, left_type: Type, overload: Overload, left: Step, right: Step) -> Step | None:
    """Return the closure of `==`, `!=` or `+` for a left operand whose schema has a list type; None for other calls."""
    keys = left_type.list_keys
    if keys is None or function not in ("_==_", "_!=_", "_+_"):
        return None
    combine = _add if function == "_+_" else _equal
    is_negated, cost = function == "_!=_", overload.cost

    def run(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        if type(one) is not list or type(other) is not list:
            raise EvaluationError("no such overload")
        frame.charge(cost.actual(one, other))
        frame.do(len(one) + len(other))
        found = combine(frame, one, other, keys)
        return not found if is_negated else found

    return run


def _key(item: Any, keys: tuple[str, ...]) -> Any:
    """Return a hashable key of an item; None for an item without one. Items of sets have no key fields."""
    if not keys:
        return hashable(item)
    return tuple(hashable(item.get(key)) for key in keys) if isinstance(item, Mapping) else None


def _equal(frame: Frame, one: list[Any], other: list[Any], keys: tuple[str, ...]) -> bool:
    if len(one) != len(other):
        return False
    by_key = {_key(item, keys): item for item in one}
    if None in by_key:
        # Items of a set may be lists and maps.
        frame.do(len(one) * len(other))
        return all(contains(frame, one, item) for item in other)
    return all((key := _key(item, keys)) in by_key and equal(frame, by_key[key], item) for item in other)


def _add(frame: Frame, one: list[Any], other: list[Any], keys: tuple[str, ...]) -> list[Any]:
    """Return the items of `one`, replaced by those of `other` with the same key, and the other items of `other`."""
    result = list(one)
    indexes = {_key(item, keys): index for index, item in enumerate(one)}
    indexes.pop(None, None)
    for item in other:
        key = _key(item, keys)
        if key is None:
            frame.do(len(result))
            if not contains(frame, result, item):
                result.append(item)
        elif key in indexes:
            result[indexes[key]] = item
        else:
            indexes[key] = len(result)
            result.append(item)
    return result
