"""Short names for schemas, and the errors of schemas and values."""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.customresources.schema import Structural, validate_schema
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

META = Schema(LazyDefinitions()).of_kind("", "v1", "Pod").child("metadata")
STRING, INTEGER, NUMBER, BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))
PRESERVED: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def struct(required: tuple[str, ...] = (), /, **properties: Any) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


def listing(items: JsonObject, **more: Any) -> JsonObject:
    return {"type": "array", "items": items, **more}


def mapping(values: JsonObject, **more: Any) -> JsonObject:
    return {"type": "object", "additionalProperties": values, **more}


def keyed(items: JsonObject, *keys: str) -> JsonObject:
    return listing(items, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


def texts(schema: JsonObject, obj: JsonObject, old: JsonObject | None = None) -> list[str]:
    """Return the errors of an object as kubectl prints them."""
    return [f"{error.field}: {error.message}" for error in Structural.parse(schema).validate(obj, old)]


def schema_texts(schema: JsonObject, *, has_status: bool = False) -> list[str]:
    """Return the errors of a declared schema at the path `s`."""
    root = Field(schema, "s")
    validate_schema(root, META, has_status=has_status)
    return [f"{error.field}: {error.message}" for error in root.errors]


def about(field: JsonObject, value: Any) -> list[str]:
    """Return the errors of a value of the field `spec.x`."""
    return texts(struct(spec=struct(x=field)), {"spec": {"x": value}})
