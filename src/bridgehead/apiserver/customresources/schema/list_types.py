"""Validation of the extensions by which lists and maps are merged.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

from .errors import Errors
from .node import LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, subschema
from .paths import child, key

_LIST_TYPES, _MAP_TYPES = ("atomic", "set", "map"), ("atomic", "granular")


def validate_list_and_map_types(schema: JsonObject, path: str) -> list[FieldError]:
    """Validate `x-kubernetes-list-type`, `-list-map-keys` and `-map-type` of one schema."""
    errors = [*_validate_type(schema, path, MAP_TYPE, "object", _MAP_TYPES)]
    list_errors = _validate_type(schema, path, LIST_TYPE, "array", _LIST_TYPES)
    items, list_type = subschema(schema.get("items")), schema.get(LIST_TYPE)
    if list_type == "set" and schema.get("type") == "array" and items is not None:
        errors += _validate_set_items(items, child(path, "items"))
    errors += list_errors
    keys = schema.get(LIST_MAP_KEYS, [])
    if keys and list_type != "map":
        detail = f"must be map if {LIST_MAP_KEYS} is non-empty"
        where = child(path, LIST_TYPE)
        errors.append(field.invalid(where, list_type, detail) if list_type else field.required(where, detail))
    if list_type == "map":
        errors += _validate_map(schema, keys, path)
    if list_type in ("set", "map") and items is not None:
        errors += _validate_items(items, list_type, keys, child(path, "items"))
    return errors


def _validate_type(
    schema: JsonObject, path: str, name: str, wanted: str, supported: tuple[str, ...]
) -> list[FieldError]:
    if name not in schema:
        return []
    errors, where, given = [], child(path, "type"), schema.get("type", "")
    if given != wanted:
        detail = f"must be {wanted} if {name} is specified"
        errors.append(field.invalid(where, given, detail) if given else field.required(where, detail))
    return errors + field.one_of(child(path, name), schema[name], supported)


def _validate_set_items(items: JsonObject, path: str) -> list[FieldError]:
    detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
    list_type = items.get(LIST_TYPE)
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        return [field.invalid(child(path, LIST_TYPE), list_type, detail)]
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        return [field.invalid(child(path, MAP_TYPE), list_type, detail)]
    return []


def _validate_map(schema: JsonObject, keys: list[str], path: str) -> list[FieldError]:
    errors: Errors = []
    where = child(path, LIST_MAP_KEYS)
    if not keys:
        errors.append(field.required(where, f"must not be empty if {LIST_TYPE} is map"))
    items = schema.get("items")
    if items is None:
        errors.append(field.required(child(path, "items"), f"must have a schema if {LIST_TYPE} is map"))
    elif not isinstance(items, dict):
        detail = f"must only have a single schema if {LIST_TYPE} is map"
        errors.append(field.invalid(child(path, "items"), items, detail))
    elif items.get("type", "") != "object":
        detail = f"must be object if parent array's {LIST_TYPE} is map"
        errors.append(field.invalid(child(path, "items.type"), items.get("type", ""), detail))
    else:
        properties, seen = items.get("properties", {}), set()
        for name in keys:
            if name not in properties:
                errors.append(field.invalid(where, keys, "entries must all be names of item properties"))
            elif properties[name].get("type") in ("array", "object"):
                detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
                errors.append(field.invalid(f"{path}.items.properties[{name}].type", "object", detail))
            if name in seen:
                errors.append(field.invalid(where, keys, "must not contain duplicate entries"))
            seen.add(name)
    return errors


def _validate_items(items: JsonObject, list_type: str, keys: list[str], path: str) -> list[FieldError]:
    """Check that no item and no key of an item can be null or absent."""
    errors: Errors = []
    if items.get("nullable"):
        errors.append(field.forbidden(child(path, "nullable"), f"cannot be nullable when {LIST_TYPE} is {list_type}"))
    if list_type == "map":
        for name in keys:
            schema = items.get("properties", {}).get(name)
            if schema is None:
                continue
            where = key(child(path, "properties"), name)
            reason = f"this property is in {LIST_MAP_KEYS}, so it"
            if name not in items.get("required", ()) and "default" not in schema:
                detail = f"{reason} must have a default or be a required property"
                errors.append(field.required(child(where, "default"), detail))
            if schema.get("nullable"):
                errors.append(field.forbidden(child(where, "nullable"), f"{reason} cannot be nullable"))
    return errors
