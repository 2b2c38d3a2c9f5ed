"""Conversions between types, `type` and `dyn`.

Pure: no I/O, no clock, no randomness. Source: CEL language definition "Type conversions", cel-go `common/types`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from bridgehead.apiserver.cel.costs import PARSING, TO_BYTES, TO_TEXT
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.values import SECOND, Uint, cel_type, check_int, check_uint

from .times import check_timestamp, format_duration, format_timestamp, parse_duration, parse_timestamp

_INT = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)|nan", re.ASCII | re.IGNORECASE)
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


def _from_text(text: str, wanted: str) -> int:
    low, high = (-(2**63), 2**63) if wanted == "int" else (0, 2**64)
    if _INT.fullmatch(text) is None or (wanted == "uint" and text[0] in "+-") or not low <= int(text) < high:
        raise EvaluationError(f"type conversion error from 'string' to '{wanted}'")
    return int(text)


def _from_double(value: float, wanted: str) -> int:
    low, high = (-(2**63), 2**63) if wanted == "int" else (0, 2**64)
    if math.isnan(value) or not low <= value < high or (wanted == "int" and value == low):
        raise EvaluationError("integer overflow" if wanted == "int" else "unsigned integer overflow")
    return int(value)


def _double_of(text: str) -> float:
    if _DOUBLE.fullmatch(text) is None:
        raise EvaluationError("type conversion error from 'string' to 'double'")
    value = float(text)
    if math.isinf(value) and text[-1].isdecimal():
        raise EvaluationError("type conversion error from 'string' to 'double'")
    return value


def _bool_of(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise EvaluationError("type conversion error from 'string' to 'bool'")


def format_double(value: float) -> str:
    """Return a double in Go's shortest notation (`%g` without a limit of digits): `1`, `1.5`, `1e+21`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    number = "".join(map(str, digits))
    power = len(number) + int(exponent) - 1
    minus = "-" if sign else ""
    if -5 < power < 21:
        if power < 0:
            return f"{minus}0.{'0' * (-power - 1)}{number}"
        whole = number[: power + 1].ljust(power + 1, "0")
        fraction = number[power + 1 :]
        return f"{minus}{whole}.{fraction}" if fraction else f"{minus}{whole}"
    mantissa = number[0] + ("." + number[1:] if len(number) > 1 else "")
    return f"{minus}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _type(value: Any) -> Any:
    return cel_type(value)


def _same(value: Any) -> Any:
    return value


FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "int": (
        overload("(int) -> int", _same),
        overload("(uint) -> int", lambda value: check_int(int(value))),
        overload("(double) -> int", lambda value: _from_double(value, "int")),
        overload("(string) -> int", lambda text: _from_text(text, "int")),
        overload("(timestamp) -> int", lambda value: int(value) // SECOND),
        overload("(duration) -> int", int),
    ),
    "uint": (
        overload("(uint) -> uint", _same),
        overload("(int) -> uint", check_uint),
        overload("(double) -> uint", lambda value: Uint(_from_double(value, "uint"))),
        overload("(string) -> uint", lambda text: Uint(_from_text(text, "uint"))),
    ),
    "double": (
        overload("(double) -> double", _same),
        overload("(int) -> double", float),
        overload("(uint) -> double", float),
        overload("(string) -> double", _double_of),
    ),
    "bool": (overload("(bool) -> bool", _same), overload("(string) -> bool", _bool_of)),
    "string": (
        overload("(string) -> string", _same),
        overload("(bool) -> string", lambda value: "true" if value else "false"),
        overload("(int) -> string", str),
        overload("(uint) -> string", str),
        overload("(double) -> string", format_double, PARSING),
        overload("(bytes) -> string", _decode, TO_TEXT),
        overload("(timestamp) -> string", format_timestamp, PARSING),
        overload("(duration) -> string", format_duration),
    ),
    "bytes": (
        overload("(bytes) -> bytes", _same),
        overload("(string) -> bytes", lambda text: text.encode(errors="replace"), TO_BYTES),
    ),
    "timestamp": (
        overload("(timestamp) -> timestamp", _same),
        overload("(string) -> timestamp", parse_timestamp, PARSING),
        overload("(int) -> timestamp", lambda seconds: check_timestamp(seconds * SECOND)),
    ),
    "duration": (
        overload("(duration) -> duration", _same),
        overload("(string) -> duration", parse_duration, PARSING),
        overload("(int) -> duration", lambda value: parse_duration(f"{value}ns")),
    ),
    "dyn": (overload("(A) -> dyn", _same),),
    "type": (overload("(A) -> type(A)", _type),),
}
