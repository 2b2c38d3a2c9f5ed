"""Checks of numbers. Go keeps a schema's limits as float64, and a whole number of an object as int64.

Pure: no I/O, no clock, no randomness.
Source: kube-openapi/pkg/validation/validate/values.go, go-openapi/swag/convert.go.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

from . import errors as words
from .errors import Check, Report
from .paths import Path, dotted

_INT64 = range(-(2**63), 2**63)
# What whole numbers of a format may be; int64 without a format.
_WHOLE_RANGES = {"int32": range(-(2**31), 2**31), "uint32": range(2**32), "uint64": range(2**64)}
_FLOAT32_FORMATS = ("float", "float32")
_FLOAT32_END = 2.0**128 - 2.0**103  # from here on, rounding gives infinity
_MAX_WHOLE = 2**53 - 1  # beyond, a float64 is not exact
_TOLERANCE = 1e-9


def is_whole(value: float) -> bool:
    """Whether a float stands for a whole number, with a tolerance for divisions."""
    if not -_MAX_WHOLE <= value <= _MAX_WHOLE:
        return False
    whole = float(int(value))
    return value == whole or abs(value - whole) / (abs(value) + abs(whole)) < _TOLERANCE


def integer_check(wanted: str, got: str) -> Check:
    """Return a check that a number is whole and fits 64 bits. `wanted` and `got` are the types in the message."""

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if value in _INT64 if type(value) is int else is_whole(value):
            return 0
        errors.append(words.wrong_type(dotted(path), wanted, got))
        return -1

    return step


def normalized(value: Any) -> Any:
    """Return a value with the numbers that Kubernetes would store: `2.0` is 2, what exceeds 64 bits is a float.

    Returns the argument itself if nothing changes; else the result shares parts with it. Raises `SchemaMismatch` for a
    number that no float holds.
    """
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() and -(2.0**63) <= value < 2.0**63 else value
    if kind is int:
        try:
            return value if value in _INT64 else float(value)
        except OverflowError:
            raise SchemaMismatch("json: cannot unmarshal number into Go value of type float64") from None
    if kind is dict:
        changed = {name: new for name, item in value.items() if (new := normalized(item)) is not item}
        return {**value, **changed} if changed else value
    if kind is list:
        items = [normalized(item) for item in value]
        return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
    return value


def number_checks(schema: JsonObject, *, is_int: bool) -> list[Check]:
    """Return the checks of a schema's format and limits for integers or for other numbers."""
    steps = _range_checks(schema.get("type", ""), schema.get("format", ""))
    factor, least, most = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")
    if factor is not None:
        steps.append(_multiple(factor, is_int=is_int))
    if least is not None:
        steps.append(_minimum(_limit(least, is_int=is_int), exclusive=bool(schema.get("exclusiveMinimum"))))
    if most is not None:
        steps.append(_maximum(_limit(most, is_int=is_int), exclusive=bool(schema.get("exclusiveMaximum"))))
    return steps


def _range_checks(type: str, format: str) -> list[Check]:
    """Return the check that a number fits its type and format, if they have a range."""
    if type == "integer":
        numbers = _WHOLE_RANGES.get(format, _INT64)

        def fits(value: float) -> bool:
            return isfinite(value) and value == int(value) and int(value) in numbers

    elif format in _FLOAT32_FORMATS:

        def fits(value: float) -> bool:
            return abs(value) < _FLOAT32_END

    else:
        return []
    what = f"{type} with format {format}" if format else f"{type} (default format)"

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if not fits(value):
            errors.append(field.invalid("", "", f"Checked value must be of type {what} in {dotted(path)}"))
        return 0

    return [step]


def _limit(limit: float, *, is_int: bool) -> float:
    # As in Go, a limit is cut to a whole number for whole numbers: with maximum 1.5, 1 passes and 2 does not.
    return int(limit) if is_int else float(limit)


def _minimum(limit: float, *, exclusive: bool) -> Check:
    text = f"should be greater than {'' if exclusive else 'or equal to '}{words.number_text(limit)}"

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if value < limit or (exclusive and value == limit):
            errors.append(words.failed(dotted(path), value, text))
        return 0

    return step


def _maximum(limit: float, *, exclusive: bool) -> Check:
    text = f"should be less than {'' if exclusive else 'or equal to '}{words.number_text(limit)}"

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if value > limit or (exclusive and value == limit):
            errors.append(words.failed(dotted(path), value, text))
        return 0

    return step


def _multiple(factor: float, *, is_int: bool) -> Check:
    whole = int(factor)
    text = f"should be a multiple of {words.number_text(whole if is_int and whole else float(factor))}"

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if factor < 0:
            name = dotted(path)
            detail = f"factor MultipleOf declared for {name} must be positive: {words.number_text(factor)}"
            errors.append(field.invalid(name, words.shown(factor), detail))
        elif not (value % whole == 0 if is_int and whole else factor and is_whole(_quotient(value, factor))):
            errors.append(words.failed(dotted(path), value, text))
        return 0

    return step


def _quotient(value: float, factor: float) -> float:
    return 1 / factor * value if factor < 1 else value / factor
