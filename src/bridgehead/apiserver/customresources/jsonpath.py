"""The JSONPath of printer columns, scales and selectable fields.

A column's path may have fields, indices, slices, wildcards, recursive descent and filters, as kubectl's templates have;
the paths of scales and selectable fields have fields only. A path is compiled to a function.
Pure: no I/O, no clock, no randomness. Source: k8s.io/client-go/util/jsonpath.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from bridgehead.apiserver.go_values import JSON_ESCAPES

# Returns the values at a path, which may be none.
Find = Callable[[Any], list[Any]]
_Step = Callable[[Any], Iterable[Any]]

_FIELD = re.compile(r"(?:\\.|[^.\[\]\\\s|{}])+")
_FIELD_STEP = re.compile(r"\.([^.\[\]'\\\s]+)|\['((?:[^'\\]|\\.)*)'\]")
_INT = re.compile(r"[+-]?\d+")
_SLICE = re.compile(r"(-?\d*)(:(-?\d*))?(:(-?\d*))?")
_FILTER = re.compile(r"\?\((.*)\)", re.DOTALL)
_COMPARISON = re.compile(r"(.*?)\s*(==|!=|<=|>=|<|>)\s*(.*)", re.DOTALL)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MAX_STEPS = 100
_MAX_VALUES = 10_000  # that a step may find; more steps with wildcards would find exponentially many


def compile_path(text: str) -> Find:
    """Compile a path such as `.spec.ports[0].name`. Raises ValueError."""
    steps = list(_parse(text))
    if len(steps) > _MAX_STEPS:
        raise ValueError(f"the path has more than {_MAX_STEPS} steps")

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = list(islice(chain.from_iterable(map(step, found)), _MAX_VALUES))
            if not found:
                break
        return found

    return find


def field_names(text: str) -> tuple[str, ...]:
    """Return the names of a path of fields only, such as `.spec.replicas` or `.spec['a.b']`. Raises ValueError."""
    names: list[str] = []
    at = 0
    while at < len(text):
        step = _FIELD_STEP.match(text, at)
        if step is None:
            why = f"expected identifier after . at index {at + 1}" if text[at] == "." else _unexpected(text[at])
            raise ValueError(f"invalid field path {text}: {why}")
        names.append(step.group(1) or re.sub(r"\\(.)", r"\1", step.group(2)))
        at = step.end()
    return tuple(names)


def _unexpected(character: str) -> str:
    return f"expected [ or . but got: {character}"


def value_at(value: Any, names: tuple[str, ...]) -> Any:
    """Return the value at a path of fields, None without one."""
    for name in names:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def as_text(value: Any) -> str:
    """Render a value as kubectl's templates do: text as it is, lists and maps as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return msgspec.json.encode(value, order="sorted").decode().translate(JSON_ESCAPES)


def _parse(text: str) -> Iterator[_Step]:
    at = 0
    while at < len(text):
        if text.startswith("..", at):
            yield _descendants
            at += 1
        elif text[at] == "[":
            end = _closing(text, at)
            yield _subscript(text[at + 1 : end].strip())
            at = end + 1
        elif text[at] == "." and text[at + 1 : at + 2] in ("", "["):
            at += 1
        else:
            name = _FIELD.match(text, at + 1) if text[at] == "." else None
            if name is None:
                raise ValueError(f"unrecognized character in action: {text[at:][:2]!r}")
            yield _field(re.sub(r"\\(.)", r"\1", name.group()))
            at = name.end()


def _closing(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one at `start`. Raises ValueError."""
    depth, quote = 0, ""
    for at in range(start, len(text)):
        character = text[at]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
            if depth == 0:
                return at
    raise ValueError("unterminated array")


def _field(name: str) -> _Step:
    if name == "*":
        return _children
    return lambda value: [value[name]] if type(value) is dict and name in value else []


def _children(value: Any) -> list[Any]:
    if type(value) is dict:
        return list(value.values())
    return value if type(value) is list else []


def _descendants(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(_children(one))


def _subscript(text: str) -> _Step:
    if text == "*":
        return _children
    if text[:1] in ("'", '"'):
        if text[-1] != text[0] or len(text) < 2:
            raise ValueError("unterminated quoted string")
        return _field(text[1:-1])
    filtered = _FILTER.fullmatch(text)
    if filtered is not None:
        return _filter(filtered.group(1).strip())
    if "," in text:
        parts = [_subscript(part.strip()) for part in text.split(",")]
        return lambda value: [found for part in parts for found in part(value)]
    if _INT.fullmatch(text):
        index = int(text)
        return lambda value: [value[index]] if type(value) is list and -len(value) <= index < len(value) else []
    bounds = _SLICE.fullmatch(text)
    if bounds is None or ":" not in text:
        raise ValueError(f"invalid array index {text}")
    start, stop, step = (int(part) if part else None for part in bounds.group(1, 3, 5))
    if step is not None and step <= 0:
        raise ValueError("step must be > 0")
    chosen = slice(start, stop, step)
    return lambda value: value[chosen] if type(value) is list else []


def _filter(text: str) -> _Step:
    compared = _COMPARISON.fullmatch(text)
    if compared is None:
        exists = _operand(text)
        return lambda value: [one for one in _children(value) if exists(one)]
    left, right = _operand(compared.group(1)), _operand(compared.group(3))
    compare = _COMPARE[compared.group(2)]

    def matches(value: Any) -> bool:
        one, other = left(value), right(value)
        if len(one) != 1 or len(other) != 1:
            return False
        try:
            return bool(compare(one[0], other[0]))
        except TypeError:
            return False

    return lambda value: [one for one in _children(value) if matches(one)]


def _operand(text: str) -> Find:
    text = text.strip()
    if text.startswith("@"):
        return compile_path(text[1:])
    if text[:1] in ("'", '"') and len(text) > 1 and text[-1] == text[0]:
        literal: Any = text[1:-1]
    else:
        try:
            literal = msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise ValueError(f"unrecognized filter {text}") from None
    return lambda _: [literal]
