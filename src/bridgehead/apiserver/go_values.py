"""Values of decoded JSON as Go prints them, for error messages that clients know.

Pure: no I/O, no clock, no randomness. Source: Go's package fmt (`%v`), apimachinery/pkg/runtime/converter.go.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Any

_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
# Characters that Go's encoder of JSON escapes in texts, so that these can stand in HTML and in JavaScript.
JSON_ESCAPES = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}
# Characters that Go quotes by a letter of their own.
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {"\\": "\\\\", '"': '\\"'}
# Kinds of values, by their names in errors of Go's package json. A number without a fraction is an integer in
# unstructured objects.
_KINDS = {"array": "slice", "object": "map", "number": "int64"}


def quoted(text: str) -> str:
    """Return a text as Go's `%q` prints it."""
    return f'"{"".join(_ESCAPES.get(character) or _printable(character) for character in text)}"'


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number_text(value: float) -> str:
    """Render a number as Go's %v: `5`, `0.5`, `1e+06`."""
    if isinstance(value, int) or not isfinite(value):
        return str(value)
    number = Decimal(repr(value)).normalize()
    sign, digits, _ = number.as_tuple()
    power = number.adjusted()
    if -4 <= power < 6:
        return f"{number:f}"
    fraction = "".join(map(str, digits[1:]))
    mantissa = f"{digits[0]}.{fraction}" if fraction else str(digits[0])
    return f"{'-' if sign else ''}{mantissa}e{power:+03d}"


def json_kind(value: Any) -> str:
    """Return the name of a value's type in errors of Go's package json."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
    return "object"


def go_type(value: Any) -> str:
    """Return the type that a value has in an unstructured object."""
    return _TYPES.get(type(value), "nil")


def go_value(value: Any) -> str:
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case float():
            return number_text(value)
        case dict():
            return f"map[{' '.join(f'{name}:{go_value(item)}' for name, item in sorted(value.items()))}]"
        case list():
            return f"[{' '.join(map(go_value, value))}]"
    return str(value)


def conversion_error(got: str, wanted: str) -> str:
    """Return the error of a conversion from an unstructured object.

    `got` is the JSON type of a value as an error of Go's package json names it (`number 1.5`), `wanted` a Go type.
    """
    kind = "float64" if got.startswith("number ") and "." in got else _KINDS.get(got.partition(" ")[0], got)
    if wanted.startswith("map["):
        return f"cannot restore map from {kind}"
    if wanted.startswith("[]"):
        return f"cannot restore slice from {kind}"
    if "." in wanted:  # a struct of a package
        return f"cannot restore struct from: {kind}"
    is_converted = (kind == "float64" and wanted.startswith("int")) or (kind == "int64" and wanted == "string")
    return f"cannot convert {kind} to {wanted}" if is_converted else f"unrecognized type: {wanted}"
