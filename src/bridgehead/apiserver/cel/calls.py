"""Calls of functions and operators: from candidate overloads to a closure.

With static types one overload is left and is called directly. Operands of type dyn are dispatched on the Python types
of their values; what was found for a combination of types is remembered.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .declarations import Overload
from .errors import EvaluationError
from .set_and_map_lists import compile_merging
from .syntax_tree import Call
from .types import Type
from .values import Frame, cel_type, lookup, optional_lookup

Step = Callable[[Frame], Any]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "_==_": operator.eq, "_!=_": operator.ne,
    "_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge,
}  # fmt: skip
_LOOKUPS: dict[str, Callable[[Any, Any], Any]] = {"_[_]": lookup, "_[?_]": optional_lookup}
_SCALARS = frozenset({"int", "uint", "double"})
_OPERATORS = frozenset("_-!@")


def compile_overloads(node: Call, steps: Sequence[Step]) -> Step:
    """Return the closure of a checked call."""
    kinds = [one.type.kind for one in node.operands]
    if node.function in _COMPARISONS and kinds[0] == kinds[1] and kinds[0] in _SCALARS:
        return _compare(_COMPARISONS[node.function], *steps)
    if node.function in ("_==_", "_!=_") and kinds == ["string", "string"]:
        return _compare_texts(_COMPARISONS[node.function], *steps)
    if len(kinds) == 2 and kinds[0] == "list":
        merging = compile_merging(node.function, node.operands[0].type, node.overloads[0], *steps)
        if merging is not None:
            return merging
    if node.function in _LOOKUPS:
        return _index(_LOOKUPS[node.function], *steps)
    if len(node.overloads) == 1:
        (found,) = node.overloads
        if not any(_is_open(one.type, wanted) for one, wanted in zip(node.operands, found.operands, strict=True)):
            return _direct(found, steps)
    return _dispatched(node.function, tuple(node.overloads), steps)


def _compare(compare: Callable[[Any, Any], bool], left: Step, right: Step) -> Step:
    def run(frame: Frame) -> bool:
        frame.cost += 1
        return compare(left(frame), right(frame))

    return run


def _compare_texts(compare: Callable[[Any, Any], bool], left: Step, right: Step) -> Step:
    def run(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        frame.cost += (min(len(one), len(other)) + 9) // 10
        return compare(one, other)

    return run


def _index(look_up: Callable[[Any, Any], Any], container: Step, key: Step) -> Step:
    def run(frame: Frame) -> Any:
        frame.cost += 1
        return look_up(container(frame), key(frame))

    return run


def _is_open(given: Type, wanted: Type) -> bool:
    """Return whether the type of an operand is known at run time only."""
    return given.kind in ("dyn", "any", "param", "null") and wanted.kind not in ("dyn", "param")


def _direct(found: Overload, steps: Sequence[Step]) -> Step:
    run, cost, count = found.run, found.cost, len(steps)
    if cost.fixed is not None and not cost.work and not found.needs_frame and count in (1, 2):
        price = cost.fixed
        if count == 1:
            only = steps[0]

            def call_one(frame: Frame) -> Any:
                frame.cost += price
                return run(only(frame))

            return call_one
        left, right = steps

        def call_two(frame: Frame) -> Any:
            frame.cost += price
            return run(left(frame), right(frame))

        return call_two

    def call(frame: Frame) -> Any:
        return apply(found, frame, [step(frame) for step in steps])

    return call


def apply(found: Overload, frame: Frame, values: Sequence[Any]) -> Any:
    """Charge for a call and run it."""
    cost = found.cost
    frame.charge(cost.actual(*values) if cost.fixed is None else cost.fixed)
    if cost.work:
        frame.do(cost.work)
    return found.run(frame, *values) if found.needs_frame else found.run(*values)


def _dispatched(function: str, candidates: tuple[Overload, ...], steps: Sequence[Step]) -> Step:
    known: dict[tuple[type, ...], Overload] = {}

    def call(frame: Frame) -> Any:
        values = [step(frame) for step in steps]
        types = tuple(map(type, values))
        found = known.get(types)
        if found is None:
            found = known[types] = _find(function, candidates, values)
        return apply(found, frame, values)

    return call


def _find(function: str, candidates: Sequence[Overload], values: Sequence[Any]) -> Overload:
    given = [cel_type(value) for value in values]
    for candidate in candidates:
        if all(map(_accepts, candidate.operands, given)):
            return candidate
    if function[0] in _OPERATORS:
        raise EvaluationError("no such overload")
    raise EvaluationError(f"no such overload: {function}({', '.join(one.name for one in given)})")


def _accepts(wanted: Type, given: Type) -> bool:
    if wanted.kind in ("dyn", "param"):
        return True
    return wanted.kind == given.kind and (wanted.kind not in ("opaque", "struct") or wanted.name == given.name)
