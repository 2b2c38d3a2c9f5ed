"""The tree of a structural schema: what pruning, defaulting, lists and rules ask for while they walk an object.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/structural.go, convert.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

EMBEDDED, INT_OR_STRING = "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"
PRESERVE_UNKNOWN, VALIDATIONS = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"
LIST_TYPE, LIST_MAP_KEYS, MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"

# Fields that every object has, whatever its schema declares.
META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
# Fields with alternatives. Few schemas have any.
CHOICES = frozenset({"allOf", "anyOf", "oneOf", "not"})


def subschema(value: Any) -> JsonObject | None:
    """Return a schema of `items`, `additionalProperties` or `not`, which may also be a list, a boolean or absent."""
    return value if isinstance(value, dict) else None


def subschema_at(schema: Field, name: str) -> Field:
    """Return the schema in a field that may also be a list, a boolean or absent: its value is None then."""
    return Field(subschema(schema.get(name)), name, schema)


class Node:
    """A schema of one value. The `has_` fields include the nodes below, so that a walk can skip what has nothing.

    `is_map`: the schema has `additionalProperties`; `values` is their schema, None for a boolean.
    """

    __slots__ = (
        "default",
        "has_default",
        "has_defaults",
        "has_embedded",
        "has_keyed_lists",
        "has_rules",
        "has_unique_lists",
        "is_embedded",
        "is_map",
        "is_nullable",
        "items",
        "list_keys",
        "list_type",
        "preserves_unknown",
        "properties",
        "schema",
        "values",
    )

    def __init__(self, schema: JsonObject) -> None:
        self.schema = schema
        self.properties: dict[str, Node] = {name: Node(field) for name, field in schema.get("properties", {}).items()}
        items, values = subschema(schema.get("items")), schema.get("additionalProperties")
        self.items = None if items is None else Node(items)
        self.is_map = values is not None
        self.values = Node(values) if isinstance(values, dict) else None
        self.is_nullable = bool(schema.get("nullable"))
        self.default = schema.get("default")
        self.has_default = self.default is not None
        self.preserves_unknown = bool(schema.get(PRESERVE_UNKNOWN))
        self.is_embedded = bool(schema.get(EMBEDDED))
        self.list_type = schema.get(LIST_TYPE)
        self.list_keys: tuple[str, ...] = tuple(schema.get(LIST_MAP_KEYS, ()))
        below: list[Node] = list(self.children())
        self.has_defaults: bool = self.has_default or any(node.has_defaults for node in below)
        self.has_embedded: bool = self.is_embedded or any(node.has_embedded for node in below)
        self.has_keyed_lists: bool = self.list_type == "map" or any(node.has_keyed_lists for node in below)
        self.has_unique_lists: bool = self.list_type in ("map", "set") or any(node.has_unique_lists for node in below)
        self.has_rules: bool = bool(schema.get(VALIDATIONS)) or any(node.has_rules for node in below)

    def children(self) -> Iterator[Node]:
        """Yield the nodes directly below."""
        yield from self.properties.values()
        if self.items is not None:
            yield self.items
        if self.values is not None:
            yield self.values

    def field(self, name: str) -> Node | None:
        """Return the schema of a field or of a map's value; None without one."""
        return self.properties.get(name, self.values)
