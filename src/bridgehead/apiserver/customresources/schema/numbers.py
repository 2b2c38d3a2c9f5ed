"""Checks of numbers. Go keeps a schema's limits as float64, and a whole number of an object as int64.

Pure: no I/O, no clock, no randomness.
Source: kube-openapi/pkg/validation/validate/values.go, go-openapi/swag/convert.go.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.go_values import number_text
from bridgehead.apiserver.resource import JsonObject

from . import errors as words
from .errors import Check, Report
from .paths import Path, dotted

_INT64 = range(-(2**63), 2**63)
# Ranges of whole numbers, by format.
_WHOLE_RANGES = {"": _INT64, "int64": _INT64, "int32": range(-(2**31), 2**31)}
# The formats that count, by type.
_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}
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


def decoded(value: Any) -> Any:
    """Return a value with the numbers of Go's decoding: what exceeds 64 bits is a float.

    Returns the argument itself if nothing changes; else the result shares parts with it. Raises `SchemaMismatch` for a
    number that no float holds.
    """
    return _replaced(value, _decoded)


def stored(value: Any) -> Any:
    """Return a value with the numbers that are read back after Go has stored it: `2.0` is 2.

    Before, that is, in validation, `2.0` is no integer. Results as those of `decoded`.
    """
    return _replaced(value, _stored)


def _decoded(value: float) -> float:
    try:
        return float(value) if type(value) is int and value not in _INT64 else value
    except OverflowError:
        raise SchemaMismatch("json: cannot unmarshal number into Go value of type float64") from None


def _stored(value: float) -> float:
    if type(value) is not float:
        return value
    whole = _written(value)
    return value if whole is None or whole not in _INT64 else whole


def _replaced(value: Any, replacement: Callable[[float], float]) -> Any:
    kind = type(value)
    if kind is str:
        return value
    if kind is dict:
        changed = {name: new for name, item in value.items() if (new := _replaced(item, replacement)) is not item}
        return {**value, **changed} if changed else value
    if kind is list:
        items = [_replaced(item, replacement) for item in value]
        return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
    return replacement(value) if kind is int or kind is float else value


def number_checks(schema: JsonObject, *, is_int: bool) -> list[Check]:
    """Return the checks of a schema's type, format and limits, for integers or for other numbers."""
    kind, form = schema.get("type", ""), schema.get("format", "")
    form = form if form in _FORMATS.get(kind, ()) else ""
    fits = _range(kind, form)
    what = f"{kind} with format {form}" if form else f"{kind} (default format)"
    steps: list[Check] = [] if fits is None else [_checked(fits, what)]
    for name, title, make in (
        ("multipleOf", "MultipleOf", _multiple),
        ("maximum", "Maximum boundary", _maximum),
        ("minimum", "Minimum boundary", _minimum),
    ):
        limit = schema.get(name)
        if limit is None:
            continue
        # Go keeps limits as float64. As a limit of whole numbers it is cut to a whole number, unless the type has no
        # such number: then this is an error of each value, which is also compared as a float.
        limit = float(limit)
        has_whole_limit = fits is None or fits(limit)
        if not has_whole_limit:
            steps.append(_bad_limit(title, what))
        as_int = is_int and has_whole_limit
        exclusive = bool(schema.get(f"exclusive{name.capitalize()}"))
        steps.append(make(_saturated(limit) if as_int else limit, as_int, exclusive))
    return steps


def _range(kind: str, form: str) -> Callable[[float], bool] | None:
    """Return whether a number fits a type and format, if they have a range."""
    if kind == "integer":
        numbers = _WHOLE_RANGES[form]
        # A range searches for what is no int.
        return lambda value: (whole := _written(value)) is not None and whole in numbers
    return (lambda value: abs(value) < _FLOAT32_END) if form == "float" else None


def _written(value: float) -> int | None:
    """Return the whole number with the digits that Go prints of a value; None for another number."""
    if type(value) is int:
        return value
    return int(Decimal(repr(value))) if value.is_integer() else None


def _saturated(limit: float) -> int:
    return max(_INT64[0], min(int(limit), _INT64[-1]))


def _checked(fits: Callable[[float], bool], what: str) -> Check:
    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if not fits(value):
            errors.append(Field("").invalid(f"Checked value must be of type {what} in {dotted(path)}"))
        return 0

    return step


def _bad_limit(title: str, what: str) -> Check:
    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        errors.append(Field("").invalid(f"{title} value must be of type {what} in {dotted(path)}"))
        return 0

    return step


def _minimum(limit: float, as_int: bool, exclusive: bool) -> Check:
    text = f"should be greater than {'' if exclusive else 'or equal to '}{number_text(limit)}"

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        number = value if as_int else float(value)
        if number < limit or (exclusive and number == limit):
            errors.append(words.failed(dotted(path), number, text))
        return 0

    return step


def _maximum(limit: float, as_int: bool, exclusive: bool) -> Check:
    text = f"should be less than {'' if exclusive else 'or equal to '}{number_text(limit)}"

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        number = value if as_int else float(value)
        if number > limit or (exclusive and number == limit):
            errors.append(words.failed(dotted(path), number, text))
        return 0

    return step


def _multiple(factor: float, as_int: bool, exclusive: bool) -> Check:
    text = f"should be a multiple of {number_text(factor)}"

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        name, number = dotted(path), value if as_int else float(value)
        if factor <= 0:
            detail = f"factor MultipleOf declared for {name} must be positive: {number_text(factor)}"
            errors.append(words.invalid(name, factor, detail))
        elif number % factor if as_int else not is_whole(_quotient(number, factor)):
            errors.append(words.failed(name, number, text))
        return 0

    return step


def _quotient(value: float, factor: float) -> float:
    return 1 / factor * value if factor < 1 else value / factor
