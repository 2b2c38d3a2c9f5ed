"""Uniqueness in lists of type `set` and `map`.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import JsonObject

from .errors import MAX_ERRORS
from .node import Node


def validate_lists(obj: JsonObject, node: Node) -> list[FieldError]:
    """Return errors for items that a set or a map has twice, anywhere in an object."""
    root = Field(obj)
    if node.has_unique_lists:
        _validate(root, node)
    return root.errors


def _validate(value: Field, node: Node) -> None:
    if type(value.value) is dict:
        for name in value.value:
            below = node.field(name)
            if below is not None and below.has_unique_lists:
                _validate(value.at(name) if name in node.properties else value.entry(name), below)
    elif type(value.value) is list and len(value.errors) <= MAX_ERRORS:
        if node.list_type == "set":
            _validate_set(value)
        elif node.list_type == "map":
            _validate_map(value, node.list_keys)
        if node.items is not None and node.items.has_unique_lists:
            value.must_all_obey(_validate, node.items)


def _validate_set(items: Field) -> None:
    for index in _second_ones(map(_identity, items.value)):
        items.item(index).duplicate()


def _validate_map(items: Field, names: tuple[str, ...]) -> None:
    for index, item in enumerate(items.value):
        if item is not None and type(item) is not dict:
            items.item(index).invalid("must be an object for an array of list-type map")
            return
    keys = (
        tuple(_identity(item[name]) if name in item else None for name in names) if item else None
        for item in items.value
    )
    for index in _second_ones(keys):
        items.item(index).showing(_shown(items.value[index], names)).duplicate()


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
