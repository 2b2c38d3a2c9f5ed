"""Values that parts of an object had before an update, and whether they changed.

Fields and values of maps are correlated by name, items of lists by their keys; items of other lists are not correlated.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/cel/common/equality.go, maplist.go; KEP-4008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .node import Node

# There is no old value.
ABSENT: Any = object()


def is_unchanged(node: Node | None, old: Any, new: Any) -> bool:
    """Whether a value equals its old one. Items of a list with keys may have moved."""
    if old is ABSENT:
        return False
    if type(old) is type(new) and old == new:
        return True
    return node is not None and node.has_keyed_lists and _is_moved(node, old, new)


def _is_moved(node: Node, old: Any, new: Any) -> bool:
    if type(old) is not type(new) or not isinstance(new, dict | list) or len(old) != len(new):
        return False
    if isinstance(new, dict):
        return all(name in old and is_unchanged(node.field(name), old[name], item) for name, item in new.items())
    if node.list_type != "map":
        return False
    old_item = correlation(node, old)
    return all(is_unchanged(node.items, old_item(item), item) for item in new)


def _absent(item: Any) -> Any:
    return ABSENT


def correlation(node: Node | None, old: Any) -> Callable[[Any], Any]:
    """Return a function from a list's new item to its old one; ABSENT for an item without."""
    if node is None or node.list_type != "map" or type(old) is not list:
        return _absent
    key_of = key_function(node)
    by_key: dict[Any, Any] = {}
    for item in old:
        by_key.setdefault(key_of(item), item)
    by_key.pop(None, None)
    return lambda item: by_key.get(key_of(item), ABSENT)


def key_function(node: Node) -> Callable[[Any], Any]:
    """Return a function from an item of a list with keys to its key, hashable; None for an item that has none."""
    defaults = {} if node.items is None else {name: below.default for name, below in node.items.properties.items()}
    keys = tuple((name, defaults.get(name)) for name in node.list_keys)

    def key_of(item: Any) -> Any:
        if not isinstance(item, dict):
            return None
        values = tuple(item.get(name, default) for name, default in keys)
        # A boolean equals a number in Python. An item whose key is a list or an object is invalid.
        return None if any(isinstance(v, dict | list) for v in values) else tuple((type(v), v) for v in values)

    return key_of
