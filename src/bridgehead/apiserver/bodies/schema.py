"""The schema of the API: the `Shape` of each kind, compiled from the definitions.

The extensions `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type` decide which parts of
an object managers own together, `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` what a strategic merge
patch merges.
Source: kube-openapi/pkg/schemaconv/smd.go; Kubernetes' reference "Server-Side Apply", "Merge strategy".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import lru_cache
from typing import Any

from bridgehead.apiserver.fieldmanagement.path_steps import step_by_keys, step_by_value
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import (
    ANYTHING,
    KEYED,
    LEAF,
    MAP,
    NO_FIELDS,
    SET,
    AmountShape,
    BoolShape,
    BytesShape,
    EmptyShape,
    IntOrStringShape,
    IntShape,
    JsonShape,
    ListShape,
    MapShape,
    NumberShape,
    QuantityShape,
    Shape,
    StringShape,
    StructShape,
    SubschemaShape,
    TimeShape,
)

from .definitions import definitions_by_kind
from .go_structs import key_default, zeroed_fields
from .nulls import null_fields

_REFERENCE = "#/$defs/"

_SPECIAL: dict[str, Shape] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": IntOrStringShape("intstr.IntOrString"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QuantityShape("resource.Quantity"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": TimeShape("v1.Time"),
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": TimeShape("v1.MicroTime", is_micro=True),
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": JsonShape("v1.FieldsV1"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": JsonShape("runtime.RawExtension"),
}
_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SPECIAL |= {
    f"{_APIEXTENSIONS}JSON": JsonShape("v1.JSON"),
    f"{_APIEXTENSIONS}CustomResourceSubresourceStatus": EmptyShape(f"{_APIEXTENSIONS}CustomResourceSubresourceStatus"),
}
_STRING, _BOOL, _FLOAT, _BYTES = StringShape("string"), BoolShape("bool"), NumberShape("float64"), BytesShape("[]uint8")
_STRINGS = ListShape(_STRING)
_INT32, _INT64 = IntShape("int32"), IntShape("int64")
_RESOURCE_LIST = MapShape(AmountShape("resource.Quantity"))
_CORE = "io.k8s.api.core.v1."


class Schema:
    """Shapes by kind, compiled on first use, in any thread."""

    def __init__(
        self, definitions: Mapping[str, JsonObject], plain: Callable[[str], frozenset[str]] = lambda _: NO_FIELDS
    ) -> None:
        """Take definitions; `plain` returns the fields of a definition that Go omits from JSON when they are zero."""
        self._definitions = definitions
        self._plain = lru_cache(maxsize=None)(plain)
        self._shapes: dict[str, Shape] = dict(_SPECIAL)
        # Shapes that are complete. Other threads would see a part of the fields of a shape that is being compiled.
        self._complete: dict[str, Shape] = {}
        self._compiling = threading.Lock()
        self._kinds = definitions_by_kind(definitions)

    @property
    def definitions(self) -> Mapping[str, JsonObject]:
        """The definitions by name, with references as `#/$defs/<name>`."""
        return self._definitions

    def name_of_kind(self, group: str, version: str, kind: str) -> str:
        """Return the name of a kind's definition. Raises KeyError for a kind without one."""
        return self._kinds[group, version, kind]

    def of_kind(self, group: str, version: str, kind: str) -> Shape:
        """Return the shape of a kind. Raises KeyError for a kind without a definition."""
        return self.of_definition(self._kinds[group, version, kind])

    def of_definition(self, name: str) -> Shape:
        """Return the shape of a definition such as `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`."""
        shape = self._complete.get(name)
        if shape is None:
            with self._compiling:
                shape = self._complete[name] = self._named(name)
        return shape

    def check_kind(self, group: str, version: str, kind: str) -> None:
        """Raise KeyError for a kind without a definition, without compiling its shape."""
        self._kinds[group, version, kind]

    def _named(self, name: str) -> Shape:
        shape = self._shapes.get(name)
        if shape is None:
            definition = self._definitions[name]
            if name.startswith(f"{_APIEXTENSIONS}JSONSchemaPropsOr"):
                shape = self._subschema(name)
            elif "properties" in definition:
                return self._struct(name, definition)
            else:
                shape = self._inline(definition)
            self._shapes[name] = shape
        return shape

    def _subschema(self, name: str) -> SubschemaShape:
        schema = self._named(f"{_APIEXTENSIONS}JSONSchemaProps")
        others = {"Bool": _BOOL, "Array": ListShape(schema), "StringArray": _STRINGS}
        other = others[name.removeprefix(f"{_APIEXTENSIONS}JSONSchemaPropsOr")]
        return SubschemaShape(".".join(name.split(".")[-2:]), schema, other)

    def _struct(self, name: str, definition: JsonObject) -> StructShape:
        struct = self._shapes[name] = StructShape(name, _map_relation(definition))  # some structs contain themselves
        struct.fields = {key: self._field(name, field) for key, field in definition["properties"].items()}
        required, nulls = frozenset(definition.get("required", ())), null_fields(name)
        # An empty list or map is none, but an empty list of managedFields is a request to reset them.
        kept = required - nulls | {"managedFields"}
        struct.omitted = frozenset(
            key
            for key, field in struct.fields.items()
            if key not in kept and (isinstance(field, ListShape | MapShape) or self._is_plain(name, key, field))
        )
        struct.zeroed = zeroed_fields(name, required) & struct.fields.keys()
        struct.nulls = nulls
        return struct

    def _field(self, name: str, definition: JsonObject) -> Shape:
        """Return the shape of a field of the definition `name`. Core's maps of quantities are ResourceLists."""
        shape = self._inline(definition)
        if isinstance(shape, MapShape) and isinstance(shape.values, QuantityShape) and name.startswith(_CORE):
            return _RESOURCE_LIST
        return shape

    def _is_plain(self, name: str, key: str, field: Shape) -> bool:
        return isinstance(field, StringShape | BoolShape | IntShape) and key in self._plain(name)

    def _inline(self, definition: JsonObject) -> Shape:
        if "$ref" in definition:
            return _related(self._named(definition["$ref"].removeprefix(_REFERENCE)), definition)
        match _type(definition):
            case "string":
                return _BYTES if definition.get("format") == "byte" else _STRING
            case "boolean":
                return _BOOL
            case "integer":
                return _INT32 if definition.get("format") == "int32" else _INT64
            case "number":
                return _FLOAT
            case "array":
                return self._list(definition)
            case "object" if "additionalProperties" in definition:
                return MapShape(self._inline(definition["additionalProperties"]), _map_relation(definition))
        return ANYTHING

    def _list(self, definition: JsonObject) -> ListShape:
        """Return the shape of a list. Without a list type, server-side apply merges it as a strategic patch does."""
        merges = "merge" in definition.get("x-kubernetes-patch-strategy", "").split(",")
        merge_key = definition.get("x-kubernetes-patch-merge-key", "")
        items = definition.get("items", {})
        shape = ListShape(self._inline(items), merges, merge_key)
        match definition.get("x-kubernetes-list-type", "merged" if merges else "atomic"):
            case "map":
                self._set_keys(shape, items, definition.get("x-kubernetes-list-map-keys", ()))
            case "merged" if merge_key:
                self._set_keys(shape, items, (merge_key,))
            case "set" | "merged":
                shape.relation, shape.step_of = SET, step_by_value
        return shape

    def _set_keys(self, shape: ListShape, items: JsonObject, keys: Iterable[str]) -> None:
        """Set the keys of a list's elements. Go does not omit required ones, so that zero values are their defaults."""
        name = items["$ref"].removeprefix(_REFERENCE)
        definition = self._definitions[name]
        defaults: dict[str, Any] = {}
        for key in keys:
            if key in definition.get("required", ()):
                is_number = _type(definition["properties"][key]) in ("integer", "number")
                defaults[key] = 0 if is_number else ""
            if (default := key_default(name, key)) is not None:
                defaults[key] = default
        shape.relation, shape.keys = KEYED, tuple(sorted(keys))
        shape.step_of = step_by_keys(shape.keys, defaults)


def _type(definition: JsonObject) -> str | None:
    """Return the type of values. Kubernetes' definitions allow null in place of nearly each value."""
    kind: str | list[str] | None = definition.get("type")
    return kind[0] if isinstance(kind, list) else kind


def _map_relation(definition: JsonObject) -> int:
    return LEAF if definition.get("x-kubernetes-map-type") == "atomic" else MAP


def _related(shape: Shape, definition: JsonObject) -> Shape:
    """Return the shape of a field that refers to a definition, and may be owned in another way than that."""
    if "x-kubernetes-map-type" not in definition or not isinstance(shape, StructShape):
        return shape
    other = copy(shape)
    other.relation = _map_relation(definition)
    return other
