"""Short names for schemas, and the errors of values."""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.customresources.schema import Structural
from bridgehead.apiserver.resource import JsonObject

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


def about(field: JsonObject, value: Any) -> list[str]:
    """Return the errors of a value of the field `spec.x`."""
    return texts(struct(spec=struct(x=field)), {"spec": {"x": value}})
