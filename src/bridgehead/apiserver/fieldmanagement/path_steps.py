"""Steps of paths, as the keys of FieldsV1 write them.

    f:NAME      a field of a struct, or an entry of a map
    k:{...}     an element of a list with key fields: JSON of the keys, sorted by name
    v:VALUE     an element of a set: JSON of the value
    i:INDEX     an element of a list by its position
    .           the value itself, in a node that also has children

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/fieldpath/serialize-pe.go, element.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

SELF = "."

_encode = msgspec.json.encode
_KINDS = ("f:", "k:", "v:", "i:")
# Go's encoder writes these characters as escapes, so that JSON can be embedded in HTML.
_HTML_CHARACTERS = re.compile("[<>&\u2028\u2029]")
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


class _FieldSteps(dict[str, str]):
    def __missing__(self, name: str) -> str:
        step = self[name] = field_step(name)
        return step


# Steps of the fields that types declare, by name. Steps of the entries of maps are not kept: there is no end of them.
FIELD_STEPS = _FieldSteps()


def field_step(name: str) -> str:
    return "f:" + name


def value_step(value: Any) -> str:
    return "v:" + _json(value)


def key_step(keys: dict[str, Any]) -> str:
    """Return the step of a list element. The names of `keys` are sorted."""
    return "k:" + _json(keys)


# Names and ports of list elements repeat in the objects of a cluster.
@lru_cache(maxsize=4096, typed=True)
def one_key_step(name: str, value: str | int) -> str:
    return key_step({name: value})


@lru_cache(maxsize=4096, typed=True)
def two_keys_step(first: str, one: str | int, second: str, other: str | int) -> str:
    return key_step({first: one, second: other})


def _json(value: Any) -> str:
    text = _encode(value).decode()
    return text.translate(_HTML) if _HTML_CHARACTERS.search(text) else text


# Scalars of JSON. YAML has more: dates, bytes, sets.
_SCALAR_TYPES = frozenset({str, int, float, bool})


def step_by_value(item: Any) -> str | None:
    """Return the step of an element of a set; None for one that is no scalar."""
    return value_step(item) if type(item) in _SCALAR_TYPES else None


def step_by_keys(keys: Sequence[str], defaults: Mapping[str, Any]) -> Callable[[Any], str | None]:
    """Return a function that returns the step of an element, with the keys that it has; None for one without any.

    `keys` are sorted. `defaults` are the values of keys that an element leaves out.
    """

    if len(keys) == 1:
        return _step_by_key(keys[0], defaults.get(keys[0]))

    def step_of(item: Any) -> str | None:
        if type(item) is not dict:
            return None
        found = {}
        for key in keys:
            value = item.get(key)
            if value is None:
                value = defaults.get(key)
                if value is None:
                    continue
            elif type(value) not in _SCALAR_TYPES:
                return None
            found[key] = value
        if len(found) == 2:
            (first, value), (second, other) = found.items()
            return two_keys_step(first, value, second, other)
        return key_step(found) if found else None

    return step_of


def _step_by_key(key: str, default: Any) -> Callable[[Any], str | None]:
    def step_of(item: Any) -> str | None:
        if type(item) is not dict:
            return None
        value = item.get(key)
        if value is None:
            value = default
        elif type(value) not in _SCALAR_TYPES:
            return None
        return None if value is None else one_key_step(key, value)

    return step_of


def parse_step(step: str) -> str:
    """Return a step from a client in the form in which this module writes it. Raises ValueError."""
    if step == SELF or step.startswith("f:"):
        return step
    text = step[2:]
    try:
        match step[:2]:
            case "k:":
                keys = json.loads(text)
                if isinstance(keys, dict):
                    return key_step(dict(sorted(keys.items())))
            case "v:":
                return value_step(json.loads(text))
            case "i:":
                return f"i:{int(text)}"
    except (ValueError, RecursionError):
        pass
    raise ValueError(f"unknown path element: {step}")


def sorting_key(step: str) -> tuple[Any, ...]:
    """Order of steps in FieldsV1: the value itself, fields by name, then keys, values and indexes by value."""
    if step == SELF:
        return (-1,)
    if step.startswith("f:"):
        return (0, step)
    return _value_sorting_key(step)


@lru_cache(maxsize=4096)
def _value_sorting_key(step: str) -> tuple[Any, ...]:
    kind, value = _KINDS.index(step[:2]), json.loads(step[2:])
    if isinstance(value, dict):
        return (kind, *(part for name, item in value.items() for part in (name, *_scalar_order(item))))
    return (kind, *_scalar_order(value))


def _scalar_order(value: Any) -> tuple[Any, ...]:
    """Order of scalars of different types: numbers, strings, booleans, then the rest by its text."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    return (1, value) if isinstance(value, str) else (3, str(value))


def path_text(path: Iterable[str]) -> str:
    """Return a path for a message: `.spec.ports[port=80,protocol="TCP"].nodePort`."""
    return "".join(map(step_text, path))


def step_text(step: str) -> str:
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "i:":
        return f"[{text}]"
    value = json.loads(text)
    if kind == "k:":
        return f"[{','.join(f'{name}={_quoted(item)}' for name, item in value.items())}]"
    return f"[={_quoted(value)}]"


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
