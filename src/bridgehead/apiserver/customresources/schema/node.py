"""The tree of a structural schema: what pruning, defaulting, lists, rules and field management ask for in their walks.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/structural.go, convert.go;
kube-openapi/pkg/schemaconv/smd.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.fieldmanagement.path_steps import step_by_keys, step_by_value
from bridgehead.apiserver.fieldmanagement.roots import TYPE_META
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import (
    ANY,
    ANY_DEDUCED,
    ANYTHING,
    BOOLEAN,
    DEDUCED,
    KEYED,
    LEAF,
    LIST,
    MAP,
    NUMERIC,
    OBJECT,
    SCALAR,
    SET,
    STRING,
    Shape,
)

EMBEDDED, INT_OR_STRING = "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"
PRESERVE_UNKNOWN, VALIDATIONS = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"
LIST_TYPE, LIST_MAP_KEYS, MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"

# Fields that every object has, whatever its schema declares.
META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
# Fields with alternatives. Few schemas have any.
CHOICES = frozenset({"allOf", "anyOf", "oneOf", "not"})

_FORMS = {"string": STRING, "boolean": BOOLEAN, "integer": NUMERIC, "number": NUMERIC}


def subschema(value: Any) -> JsonObject | None:
    """Return a schema of `items`, `additionalProperties` or `not`, which may also be a list, a boolean or absent."""
    return value if isinstance(value, dict) else None


def subschema_at(schema: Field, name: str) -> Field:
    """Return the schema in a field that may also be a list, a boolean or absent: its value is None then."""
    return Field(subschema(schema.get(name)), name, schema)


class Node(Shape):
    """A schema of one value. The `has_` fields include the nodes below, so that a walk can skip what has nothing.

    `is_map`: the schema has `additionalProperties`; `additional` is their schema, None for a boolean.

    As in every Shape, `fields` and `values` are what field management knows: beside what the schema declares, these are
    the metadata of embedded objects, and the fields that are preserved without a schema.
    """

    __slots__ = (
        "additional",
        "default",
        "fields",
        "form",
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
        "keys",
        "list_keys",
        "list_type",
        "preserves_unknown",
        "properties",
        "relation",
        "schema",
        "step_of",
        "values",
    )

    def __init__(self, schema: JsonObject, metadata: Shape = ANYTHING) -> None:
        """Take a schema, and for field management the shape of ObjectMeta."""
        super().__init__("")
        self.schema = schema
        properties = schema.get("properties", {}).items()
        self.properties: dict[str, Node] = {name: Node(field, metadata) for name, field in properties}
        items, additional = subschema(schema.get("items")), schema.get("additionalProperties")
        self.items: Node | None = None if items is None else Node(items, metadata)
        self.is_map = additional is not None
        self.additional = Node(additional, metadata) if isinstance(additional, dict) else None
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
        self._set_ownership(metadata)

    def _set_ownership(self, metadata: Shape) -> None:
        schema, kind = self.schema, self.schema.get("type")
        allows_any = self.preserves_unknown or schema.get("additionalProperties") is True
        self.fields = {**self.properties, **TYPE_META, "metadata": metadata} if self.is_embedded else self.properties
        self.values: Shape | None = self.additional or (ANY_DEDUCED if allows_any else None)
        self.relation, self.keys = LEAF, ()
        if schema.get(INT_OR_STRING):
            self.form = SCALAR
        elif kind in _FORMS:
            self.form = _FORMS[kind]
        elif kind == "array":
            self.form = LIST
            self._set_item_ownership()
        elif "properties" in schema or self.is_embedded or self.additional is not None:
            self.form = OBJECT
            self.relation = LEAF if schema.get(MAP_TYPE) == "atomic" else MAP
        else:
            self.form = ANY
            self.relation = DEDUCED if self.preserves_unknown else LEAF

    def _set_item_ownership(self) -> None:
        if self.list_type == "set":
            self.relation, self.step_of = SET, step_by_value
        elif self.list_type == "map":
            fields = {} if self.items is None else self.items.properties
            defaults = {name: fields[name].default for name in self.list_keys if name in fields}
            self.relation, self.keys = KEYED, tuple(sorted(self.list_keys))
            self.step_of = step_by_keys(self.keys, defaults)

    def children(self) -> Iterator[Node]:
        """Yield the nodes directly below."""
        yield from self.properties.values()
        if self.items is not None:
            yield self.items
        if self.additional is not None:
            yield self.additional

    def field(self, name: str) -> Node | None:
        """Return the schema of a field or of a map's value; None without one."""
        return self.properties.get(name, self.additional)
