"""Pruning: an object without fields that its structural schema does not know.

Nulls are dropped, too, where the schema knows the field, has no default for it and does not allow a null. Results share
parts with their argument.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go, defaulting/prunenulls.go.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.resource import JsonObject

from .node import META_FIELDS, Node
from .paths import Path, dotted


def pruned(obj: JsonObject, root: Node) -> tuple[JsonObject, list[str]]:
    """Return a whole object without unknown fields, and their paths, sorted; kind, apiVersion and metadata stay."""
    unknown: list[Path] = []
    kept = _object(obj, root, None, unknown, keeps_meta=True)
    return kept, sorted(map(dotted, unknown))


def pruned_value(value: Any, node: Node) -> Any:
    """Return a part of an object without unknown fields."""
    return _value(value, node, None, [])


def _value(value: Any, node: Node | None, path: Path, unknown: list[Path]) -> Any:
    if type(value) is dict:
        if node is None:
            unknown.extend((path, name) for name in value)
            return {} if value else value
        return _object(value, node, path, unknown, keeps_meta=node.is_embedded)
    if type(value) is list:
        items = None if node is None else node.items
        if node is not None and node.preserves_unknown:
            return _list(value, items, path, unknown, preserves=True)
        return _list(value, items, path, unknown, preserves=False)
    return value


def _object(
    value: dict[str, Any], node: Node, path: Path, unknown: list[Path], *, keeps_meta: bool, preserves: bool = False
) -> dict[str, Any]:
    result = value
    properties, values = node.properties, node.additional
    preserves = preserves or node.preserves_unknown
    for name, item in value.items():
        if keeps_meta and name in META_FIELDS:
            continue
        field = properties.get(name, values)
        if field is None and not node.is_map:
            if preserves:
                continue
            unknown.append((path, name))
        elif item is None:
            if field is None or field.is_nullable or field.has_default:
                continue
        elif type(item) is dict or type(item) is list:
            kept = _value(item, field, (path, name), unknown)
            if kept is not item:
                if result is value:
                    result = dict(value)
                result[name] = kept
            continue
        else:
            continue
        if result is value:
            result = dict(value)
        del result[name]
    return result


def _list(value: list[Any], items: Node | None, path: Path, unknown: list[Path], *, preserves: bool) -> list[Any]:
    """Return a list with its items pruned; below a list that `preserves` unknown fields, items preserve them, too."""
    if preserves and items is None:
        return value
    result = value
    for index, item in enumerate(value):
        if type(item) is dict and items is not None:
            kept: Any = _object(item, items, (path, index), unknown, keeps_meta=items.is_embedded, preserves=preserves)
        elif type(item) is list and items is not None:
            kept = _list(item, items.items, (path, index), unknown, preserves=preserves or items.preserves_unknown)
        elif type(item) is dict or type(item) is list:
            kept = _value(item, None, (path, index), unknown)
        else:
            continue
        if kept is not item:
            if result is value:
                result = list(value)
            result[index] = kept
    return result
