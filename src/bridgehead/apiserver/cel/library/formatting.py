"""`string.format(list)`: printf with CEL's clauses.

Pure: no I/O, no clock, no randomness. Source: cel-go `ext/formatting.go`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.syntax_tree import ListLiteral, MapLiteral, Node
from bridgehead.apiserver.cel.types import Type
from bridgehead.apiserver.cel.values import Duration, Frame, Timestamp, Uint, cel_type

from .conversions import format_double
from .times import format_duration, format_timestamp

_CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d{1,4}))?([a-zA-Z])|(.)|$)", re.DOTALL | re.ASCII)
_MOST_PRECISION = 1000
# The work of one element of a list or map (`Frame.do`).
_ELEMENT_WORK = 16


def format_text(frame: Frame, text: str, arguments: list[Any]) -> str:
    """Return `text` with its clauses replaced by the arguments. Raises EvaluationError."""
    position = 0

    def render(match: re.Match[str]) -> str:
        nonlocal position
        percent, precision, clause, wrong = match.groups()
        if percent:
            return "%"
        if clause is None:
            raise EvaluationError(_malformed(wrong))
        if position >= len(arguments):
            raise EvaluationError(f"index {position} out of range")
        value = arguments[position]
        position += 1
        made = _clause(frame, clause, None if precision is None else int(precision), value)
        frame.do(len(made) // 8)
        return made

    return _CLAUSE.sub(render, text)


def _malformed(wrong: str | None) -> str:
    if wrong is None:
        return "unexpected end of string"
    return f'could not parse formatting clause: unrecognized formatting clause "{wrong}"'


def check_format(text: str, arguments: Sequence[Node]) -> tuple[Node | None, str] | None:
    """Return what is wrong with the arguments of a constant text, and the one that is; None: nothing.

    No argument is wrong if the text is, or if there are too few or too many.
    """
    used = 0
    for match in _CLAUSE.finditer(text):
        percent, _, clause, wrong = match.groups()
        if percent:
            continue
        if clause is None and wrong is None:
            return None, _malformed(wrong)
        if used >= len(arguments):
            return None, f"index {used} out of range"
        if clause is None or clause not in _ACCEPTED:
            return None, _malformed(wrong or clause)
        given = _unprintable(arguments[used]) if clause == "s" else arguments[used]
        if not _is_accepted(clause, given):
            return given, f"error during formatting: {_WANTED[clause]}, was given {given.type.short_name}"
        used += 1
    if used < len(arguments):
        return None, f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
    return None


def _is_accepted(clause: str, node: Node) -> bool:
    return node.type.kind == "dyn" or node.type.kind in _ACCEPTED[clause]


def _unprintable(node: Node) -> Node:
    """Return the first element of a list or map that has no text, or the node itself."""
    elements: list[Node] = []
    if isinstance(node, ListLiteral):
        elements = node.items
    elif isinstance(node, MapLiteral):
        elements = [one for entry in node.entries for one in entry]
    for found in map(_unprintable, elements):
        if not _is_accepted("s", found):
            return found
    return node


def _clause(frame: Frame, clause: str, precision: int | None, value: Any) -> str:
    match clause:
        case "s":
            return text_of(frame, value)
        case "d" if type(value) in (int, Uint):
            return str(value)
        case "d" | "f" | "e" if type(value) is float and not math.isfinite(value):
            return text_of(frame, value)
        case "f" | "e" if type(value) in (int, Uint, float):
            digits = 6 if precision is None else precision
            if digits > _MOST_PRECISION:
                raise EvaluationError(f"precision too large: {digits}")
            return f"{float(value):.{digits}{clause}}"
        case "b" if type(value) in (int, Uint, bool):
            return f"{int(value):b}"
        case "o" if type(value) in (int, Uint):
            return f"{value:o}"
        case "x" | "X" if type(value) in (int, Uint, str, bytes):
            if isinstance(value, int):
                return f"{value:{clause}}"
            data = value.encode() if isinstance(value, str) else value
            return data.hex() if clause == "x" else data.hex().upper()
    if clause not in "sdfeboxX":
        raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{clause}"')
    raise EvaluationError(f"error during formatting: {_WANTED[clause]}, was given {cel_type(value).name}")


_WANTED = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "o": "octal clause can only be used on integers",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
}


# Kinds of types that the clauses of a constant text accept, beside dyn.
_ACCEPTED = {
    "s": frozenset(
        ["list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"]
    ),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "o": frozenset({"int", "uint"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
}


def text_of(frame: Frame, value: Any) -> str:
    """Return the text of `%s`. Raises EvaluationError for a value without one."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case Timestamp():
            return format_timestamp(value)
        case Duration():
            return format_duration(value)
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case float():
            return format_double(value)
        case int():
            return str(int(value))
        case bytes():
            return value.decode(errors="replace")
        case list():
            frame.do(len(value) * _ELEMENT_WORK)
            return f"[{', '.join(text_of(frame, item) for item in value)}]"
        case Mapping():
            frame.do(len(value) * _ELEMENT_WORK)
            pairs = sorted((text_of(frame, key), text_of(frame, item)) for key, item in value.items())
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        case Type():
            return value.name
    raise EvaluationError(f"error during formatting: {_WANTED['s']}, was given {cel_type(value).name}")
