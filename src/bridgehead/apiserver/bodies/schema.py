"""The schema of the API: the `Shape` of each kind, compiled from the definitions, with merge keys of lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import (
    ANYTHING,
    AmountShape,
    BoolShape,
    BytesShape,
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
from .nulls import null_fields

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
    f"{_APIEXTENSIONS}CustomResourceSubresourceStatus": StructShape(f"{_APIEXTENSIONS}CustomResourceSubresourceStatus"),
}
_STRING, _BOOL, _FLOAT, _BYTES = StringShape("string"), BoolShape("bool"), NumberShape("float64"), BytesShape("[]uint8")
_STRINGS = ListShape(_STRING, False, "")
_INT32, _INT64 = IntShape("int32"), IntShape("int64")
_RESOURCE_LIST = MapShape(AmountShape("resource.Quantity"))
_CORE = "io.k8s.api.core.v1."


class Schema:
    """Shapes by kind, compiled on first use."""

    def __init__(
        self, definitions: Mapping[str, JsonObject], plain: Callable[[str], frozenset[str]] = lambda _: frozenset()
    ) -> None:
        """Take definitions; `plain` returns the fields of a definition that Go omits from JSON when they are zero."""
        self._definitions = definitions
        self._plain = lru_cache(maxsize=None)(plain)
        self._shapes: dict[str, Shape] = dict(_SPECIAL)
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
        return self._named(self._kinds[group, version, kind])

    def of_definition(self, name: str) -> Shape:
        """Return the shape of a definition such as `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`."""
        return self._named(name)

    def check_kind(self, group: str, version: str, kind: str) -> None:
        """Raise KeyError for a kind without a definition, without compiling its shape."""
        self._kinds[group, version, kind]

    def _named(self, name: str) -> Shape:
        shape = self._shapes.get(name)
        if shape is None:
            definition = self._definitions[name]
            if name.startswith(f"{_APIEXTENSIONS}JSONSchemaPropsOr"):
                schema = self._named(f"{_APIEXTENSIONS}JSONSchemaProps")
                others = {"Bool": _BOOL, "Array": ListShape(schema, False, ""), "StringArray": _STRINGS}
                other = others[name.removeprefix(f"{_APIEXTENSIONS}JSONSchemaPropsOr")]
                shape = self._shapes[name] = SubschemaShape(".".join(name.split(".")[-2:]), schema, other)
            elif "properties" not in definition:
                shape = self._shapes[name] = self._inline(definition)
            else:
                struct = shape = self._shapes[name] = StructShape(name)
                struct.fields = {key: self._field(name, field) for key, field in definition["properties"].items()}
                # An empty list or map is none, but an empty list of managedFields is a request to reset them.
                kept = frozenset(definition.get("required", ())) - null_fields(name) | {"managedFields"}
                struct.omitted = frozenset(
                    key
                    for key, field in struct.fields.items()
                    if key not in kept and (isinstance(field, ListShape | MapShape) or self._is_plain(name, key, field))
                )
        return shape

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
            return self._named(definition["$ref"].removeprefix("#/$defs/"))
        kind = definition.get("type")
        match kind[0] if isinstance(kind, list) else kind:
            case "string":
                return _BYTES if definition.get("format") == "byte" else _STRING
            case "boolean":
                return _BOOL
            case "integer":
                return _INT32 if definition.get("format") == "int32" else _INT64
            case "number":
                return _FLOAT
            case "array":
                strategies = definition.get("x-kubernetes-patch-strategy", "").split(",")
                merge_key = definition.get("x-kubernetes-patch-merge-key", "")
                return ListShape(self._inline(definition.get("items", {})), "merge" in strategies, merge_key)
            case "object" if "additionalProperties" in definition:
                return MapShape(self._inline(definition["additionalProperties"]))
        return ANYTHING
