"""Closures of names, fields and conditions. A step gets a Frame and returns a value or raises EvaluationError.

Pure: no I/O, no clock, no randomness. Source: cel-go `interpreter/attributes.go`, `interpreter/interpretable.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import CostLimitExceeded, EvaluationError
from .types import Type
from .values import NONE, Frame, Optional, cel_type

Step = Callable[[Frame], Any]


def constant(value: Any) -> Step:
    return lambda frame: value


def local(slot: int) -> Step:
    """Return the read of a local variable."""

    def read(frame: Frame) -> Any:
        frame.cost += 1
        return frame.locals[slot]

    return read


# Value of a variable of `cel.bind` before the first read.
_UNKNOWN = object()


def binding(slot: int, result: Step) -> Step:
    """Return `cel.bind`, whose variable is in `slot`."""

    def run(frame: Frame) -> Any:
        frame.locals[slot] = _UNKNOWN
        return result(frame)

    return run


def bound(slot: int, value: Step) -> Step:
    """Return the read of a variable of `cel.bind`. The first one computes the value; an error remains one."""

    def read(frame: Frame) -> Any:
        frame.cost += 1
        found = frame.locals[slot]
        if found is _UNKNOWN:
            try:
                found = value(frame)
            except CostLimitExceeded:
                raise
            except EvaluationError as error:
                found = error
            frame.locals[slot] = found
        if isinstance(found, EvaluationError):
            raise found
        return found

    return read


def variable(name: str, type: Type) -> Step:
    decode = type.decode

    def plain(frame: Frame) -> Any:
        frame.cost += 1
        try:
            return frame.variables[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None

    def decoded(frame: Frame) -> Any:
        value = plain(frame)
        return value if value is None else _decoded(frame, decode, value)

    return plain if decode is None else decoded


def _decoded(frame: Frame, decode: Any, value: Any) -> Any:
    if type(value) in (list, dict):
        frame.do(len(value))
    try:
        return decode(value)
    except (ValueError, TypeError) as error:
        raise EvaluationError(str(error)) from None


def _missing(value: Any, name: str) -> EvaluationError:
    if isinstance(value, Mapping):
        return EvaluationError(f"no such key: {name}")
    if value is None or type(value) in (bool, int, float, str, bytes):
        return EvaluationError("no such overload")
    return EvaluationError(f"unsupported index type 'string' in {cel_type(value).name}")


def path(root: Step, names: tuple[str, ...], decode: Callable[[Any], Any] | None, in_structs: tuple[bool, ...]) -> Step:
    """Return the selection of nested fields. `in_structs`: for each, `in_struct` of `presence`."""
    cost = len(names)
    fields = tuple(zip(names, in_structs, strict=True))
    may_be_null = not in_structs[-1]

    def select(frame: Frame) -> Any:
        frame.cost += cost
        value = start = root(frame)
        for name, in_struct in fields:
            try:
                value = value[name]
            except (KeyError, TypeError, IndexError, AttributeError):
                if type(value) is Optional:
                    value = _of_optional(value, name, None, frame, in_struct=in_struct)
                    continue
                raise (_first_null(start, names, in_structs) if value is None else None) or _missing(
                    value, name
                ) from None
        if value is None:
            if may_be_null:
                return None
            raise _first_null(start, names, in_structs) or _missing({}, names[-1])
        return value if decode is None else _decoded(frame, decode, value)

    return select


def _first_null(value: Any, names: tuple[str, ...], in_structs: tuple[bool, ...]) -> EvaluationError | None:
    """Return the error for the first field of a struct on a path that is null; None if there is none."""
    for name, in_struct in zip(names, in_structs, strict=True):
        if not isinstance(value, Mapping):
            return None
        value = value[name]
        if value is None:
            return _missing({}, name) if in_struct else None
    return None


def presence(operand: Step, name: str, *, in_struct: bool) -> Step:
    """Return the test for a field. `in_struct`: it is a field of a struct, where null is absent."""

    def test(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is Optional:
            if not value.is_present:
                return False
            value = value.value
        if isinstance(value, Mapping):
            return value.get(name) is not None if in_struct else name in value
        raise EvaluationError("no such overload" if value is None or type(value) is not list else "no such key")

    return test


def _of_optional(
    value: Any, name: str, decode: Callable[[Any], Any] | None, frame: Frame, *, in_struct: bool
) -> Optional:
    """Return the optional field of a map, or of an optional map. `in_struct`: see `presence`."""
    if type(value) is Optional:
        if not value.is_present:
            return NONE
        value = value.value
    if not isinstance(value, Mapping):
        raise _missing(value, name)
    if name not in value:
        return NONE
    found = value[name]
    if found is None and in_struct:
        return NONE
    return Optional(found if decode is None or found is None else _decoded(frame, decode, found))


def optional_field(operand: Step, name: str, decode: Callable[[Any], Any] | None, *, in_struct: bool) -> Step:
    def select(frame: Frame) -> Any:
        frame.cost += 1
        return _of_optional(operand(frame), name, decode, frame, in_struct=in_struct)

    return select


def logical(steps: list[Step], *, decisive: bool) -> Step:
    """Return `&&` (decided by False) or `||` (decided by True): an error counts only if no operand decides."""

    def run(frame: Frame) -> Any:
        failure: EvaluationError | None = None
        for step in steps:
            try:
                value = step(frame)
            except CostLimitExceeded:
                raise
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
            if value is not (not decisive):
                failure = failure or EvaluationError("no such overload")
        if failure is not None:
            raise failure
        return not decisive

    return run


def conditional(condition: Step, yes: Step, no: Step) -> Step:
    def run(frame: Frame) -> Any:
        chosen = condition(frame)
        if chosen is True:
            return yes(frame)
        if chosen is False:
            return no(frame)
        raise EvaluationError("no such overload")

    return run
