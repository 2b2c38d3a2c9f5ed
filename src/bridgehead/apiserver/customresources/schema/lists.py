"""Uniqueness in lists of type `set` and `map`.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resources.shared import field

from .errors import MAX_ERRORS, Errors
from .node import Node
from .paths import child, key


def validate_lists(value: Any, node: Node) -> list[FieldError]:
    """Return errors for items that a set or a map has twice, anywhere in an object."""
    errors: Errors = []
    if node.has_unique_lists:
        _validate(value, node, "", errors)
    return errors


def _validate(value: Any, node: Node, path: str, errors: Errors) -> None:
    if type(value) is dict:
        for name, item in value.items():
            below = node.properties.get(name)
            if below is not None:
                if below.has_unique_lists:
                    _validate(item, below, child(path, name), errors)
            elif node.values is not None and node.values.has_unique_lists:
                _validate(item, node.values, key(path, name), errors)
    elif type(value) is list and len(errors) <= MAX_ERRORS:
        if node.list_type == "set":
            errors.extend(
                field.duplicate(f"{path}[{index}]", value[index]) for index in _second_ones(map(_identity, value))
            )
        elif node.list_type == "map":
            errors.extend(_validate_map(value, node, path))
        if node.items is not None and node.items.has_unique_lists:
            for index, item in enumerate(value):
                _validate(item, node.items, f"{path}[{index}]", errors)


def _validate_map(items: list[Any], node: Node, path: str) -> list[FieldError]:
    for index, item in enumerate(items):
        if item is not None and type(item) is not dict:
            return [field.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    names = node.list_keys
    keys = [
        tuple(_identity(item[name]) if name in item else None for name in names) if item else None for item in items
    ]
    return [field.duplicate(f"{path}[{index}]", _shown(items[index], names)) for index in _second_ones(keys)]


def _shown(item: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item} if item else {}


def _identity(item: Any) -> Any:
    """Return a hashable value that equals only that of an equal item; a boolean equals a number in Python."""
    return (type(item), json.dumps(item, sort_keys=True) if isinstance(item, dict | list) else item)


def _second_ones(items: Iterable[Any]) -> Iterator[int]:
    """Yield the index of the second one of each group of equal items."""
    seen: dict[Any, int] = {}
    for index, item in enumerate(items):
        times = seen[item] = seen.get(item, 0) + 1
        if times == 2:
            yield index
