"""Validation of the extensions by which lists and maps are merged.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field

from .node import LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, subschema_at

_EXTENSIONS = frozenset({LIST_TYPE, LIST_MAP_KEYS, MAP_TYPE})
_LIST_TYPES, _MAP_TYPES = ("atomic", "set", "map"), ("atomic", "granular")


def validate_list_and_map_types(schema: Field) -> None:
    """Validate `x-kubernetes-list-type`, `-list-map-keys` and `-map-type` of one schema."""
    if _EXTENSIONS.isdisjoint(schema.value):
        return
    items, list_type, keys = subschema_at(schema, "items"), schema.at(LIST_TYPE), schema.at(LIST_MAP_KEYS)
    _validate_type(schema, MAP_TYPE, "object", _MAP_TYPES)
    if list_type.value == "set" and schema.get("type") == "array":
        _validate_set_items(items)
    _validate_type(schema, LIST_TYPE, "array", _LIST_TYPES)
    if keys and list_type.value != "map":
        _set_or_invalid(list_type, f"must be map if {LIST_MAP_KEYS} is non-empty")
    if list_type.value == "map":
        _validate_map(schema, keys)
    if list_type.value in ("set", "map") and items.get("nullable"):
        items.at("nullable").forbidden(f"cannot be nullable when {LIST_TYPE} is {list_type.value}")
    if list_type.value == "map":
        for name in keys.value or ():
            _validate_key(items, name)


def _validate_type(schema: Field, name: str, wanted: str, supported: tuple[str, ...]) -> None:
    """Validate the extension `name`, which only schemas of the type `wanted` may have."""
    type_, given = schema.at("type"), schema.at(name)
    if given.value is not None:
        if type_.value != wanted:
            _set_or_invalid(type_, f"must be {wanted} if {name} is specified")
        given.must_be_one_of(supported)


def _set_or_invalid(field: Field, detail: str) -> None:
    """Add an error about a value that is not the required one."""
    if field.must_be_set(detail):
        field.invalid(detail)


def _validate_set_items(items: Field) -> None:
    detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
    list_type, map_type = items.at(LIST_TYPE), items.at(MAP_TYPE)
    if items.get("type") == "array" and list_type.value not in (None, "atomic"):
        list_type.invalid(detail)
    elif items.get("type") == "object" and map_type.value != "atomic":
        map_type.showing(list_type.value).invalid(detail)


def _validate_map(schema: Field, keys: Field) -> None:
    """Validate a list of type map: its keys are properties of its items."""
    keys.must_be_set(f"must not be empty if {LIST_TYPE} is map")
    items = schema.at("items")
    if items.value is None:
        items.required(f"must have a schema if {LIST_TYPE} is map")
    elif not isinstance(items.value, dict):
        items.invalid(f"must only have a single schema if {LIST_TYPE} is map")
    elif items.get("type") != "object":
        items.at("type", "").invalid(f"must be object if parent array's {LIST_TYPE} is map")
    else:
        properties = items.at("properties")
        seen: set[str] = set()
        for name in keys.value or ():
            one = properties.entry(name)
            if one.value is None:
                keys.invalid("entries must all be names of item properties")
            elif one.get("type") in ("array", "object"):
                one.at("type").showing("object").invalid(f"must be a scalar type if parent array's {LIST_TYPE} is map")
            if name in seen:
                keys.invalid("must not contain duplicate entries")
            seen.add(name)


def _validate_key(items: Field, name: str) -> None:
    """Validate that a key of the items of a list cannot be null or absent."""
    schema, reason = items.at("properties").entry(name), f"this property is in {LIST_MAP_KEYS}, so it"
    if schema.value is None:
        return
    if name not in items.get("required", ()) and "default" not in schema.value:
        schema.at("default").required(f"{reason} must have a default or be a required property")
    if schema.get("nullable"):
        schema.at("nullable").forbidden(f"{reason} cannot be nullable")
