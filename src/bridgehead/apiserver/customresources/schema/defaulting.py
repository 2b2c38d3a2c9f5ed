"""Defaults of a structural schema.

Results share parts with their argument: an object that has all values is returned itself, so that defaulting what is
read from the store costs a walk and no copy.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from bridgehead.apiserver.resource import copied

from .node import Node


def defaulted(value: Any, node: Node) -> Any:
    """Return `value` with the defaults of fields that are left out, or null where a null is not allowed."""
    if type(value) is dict:
        return _object(value, node)
    if type(value) is list and node.items is not None:
        return _list(value, node.items)
    return value


def _object(value: dict[str, Any], node: Node) -> dict[str, Any]:
    result = value
    for name, field in node.properties.items():
        if field.has_defaults:
            old = value.get(name)
            if old is None and field.has_default and not (field.is_nullable and name in value):
                old = copied(field.default)
            new = defaulted(old, field)
            if new is not value.get(name):
                if result is value:
                    result = dict(value)
                result[name] = new
    if node.additional is not None and node.additional.has_defaults:
        # A schema has fields or values, never both.
        for name, item in value.items():
            new = _filled(item, node.additional)
            if new is not item:
                if result is value:
                    result = dict(value)
                result[name] = new
    return result


def _list(value: list[Any], items: Node) -> list[Any]:
    if not items.has_defaults:
        return value
    result = [_filled(item, items) for item in value]
    return value if all(map(is_, result, value)) else result


def _filled(item: Any, node: Node) -> Any:
    if item is None and node.has_default and not node.is_nullable:
        item = copied(node.default)
    return defaulted(item, node)
