"""Whether a schema is structural: each field has one type, and value checks add nothing to the structure.

Schemas are decoded JSON whose fields have the types of JSONSchemaProps.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apiserver/schema/validation.go, complete.go, convert.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.go_patterns import BadPattern
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

from .errors import Errors
from .node import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE_UNKNOWN,
    VALIDATIONS,
    subschema,
)
from .paths import child, key
from .patterns import compile_pattern

# Recursion over schemas and objects must not end the interpreter's stack. Kubernetes has no limit; published
# definitions have at most 40 levels.
MAX_DEPTH = 100

_EITHER = [{"type": "integer"}, {"type": "string"}]
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
# Fields of a schema that an alternative may not have, and why.
_FORBIDDEN_IN_CHOICE = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("externalDocs", "must be undefined to be structural"),
    (PRESERVE_UNKNOWN, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    (LIST_MAP_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"),
    (MAP_TYPE, "must be undefined to be structural"),
    (VALIDATIONS, "must be empty to be structural"),
)
# Forbidden also when they are false or empty, because they are pointers in Go.
_POINTERS = ("additionalProperties", "default", "externalDocs", LIST_TYPE, MAP_TYPE)


def subschemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield the schemas directly inside of a schema, also in fields that custom resources may not use."""
    for name in ("properties", "patternProperties", "definitions", "dependencies"):
        yield from (one for one in schema.get(name, {}).values() if isinstance(one, dict))
    for name in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(name, ())
    for name in ("items", "additionalProperties", "additionalItems", "not"):
        below: Any = schema.get(name)
        yield from (one for one in (below if isinstance(below, list) else [below]) if isinstance(one, dict))


def is_too_deep(schema: JsonObject) -> bool:
    """Whether a schema has more than MAX_DEPTH levels. This walk does not recurse."""
    level = [schema]
    for _ in range(MAX_DEPTH):
        level = [below for one in level for below in subschemas(one)]
        if not level:
            return False
    return True


def unsupported(schema: JsonObject) -> str:
    """Return why a schema cannot become a structural one at all, "" if it can."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        for name in ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"):
            if one.get(name) or (name == "additionalItems" and name in one):
                return f"OpenAPIV3Schema '{name.removeprefix('$') if name == '$schema' else name}' is not supported"
        if isinstance(one.get("items"), list):
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
        if one.get(PRESERVE_UNKNOWN) is False:
            return f"internal error: '{PRESERVE_UNKNOWN}' must be true or undefined"
        waiting.extend(subschemas(one))
    return ""


def validate_structural(path: str, schema: JsonObject) -> list[FieldError]:
    """Return the errors of a schema, sorted by their text."""
    errors: Errors = []
    _invariants(schema, "root", path, errors)
    _completeness(schema, schema, path, path, errors)
    return sorted(errors, key=lambda error: f"{error.field}: {error.message}")


def _invariants(schema: JsonObject, level: str, path: str, errors: Errors) -> None:
    items, additional = subschema(schema.get("items")), schema.get("additionalProperties")
    is_embedded = bool(schema.get(EMBEDDED))
    if schema.get("type") == "array" and items is None:
        errors.append(field.required(child(path, "items"), "must be specified"))
    if items is not None:
        _invariants(items, "item", child(path, "items"), errors)
    for name, below in schema.get("properties", {}).items():
        _invariants(below, "field", key(child(path, "properties"), name), errors)
    if additional is not None:
        where = child(path, "additionalProperties")
        if level == "root":
            errors.append(field.forbidden(where, "must not be used at the root"))
        if isinstance(additional, dict):
            _invariants(additional, "field", where, errors)
        if is_embedded:
            errors.append(field.forbidden(where, f"must not be used if {EMBEDDED} is set"))
    errors += _int_or_string(schema, path)
    is_either = schema.get("anyOf") == _EITHER
    is_first_either = bool(schema.get("allOf")) and schema["allOf"][0].get("anyOf") == _EITHER
    _choices(schema, level, path, errors, skips_any_of=is_either, skips_first=is_first_either)
    errors += _type(schema, level, path)
    errors += _metadata(schema, level, path)
    if is_embedded and not schema.get(PRESERVE_UNKNOWN) and not schema.get("properties"):
        detail = f"must not be empty if {EMBEDDED} is true without {PRESERVE_UNKNOWN}"
        errors.append(field.required(child(path, "properties"), detail))


def _int_or_string(schema: JsonObject, path: str) -> list[FieldError]:
    if not schema.get(INT_OR_STRING):
        return []
    return [
        field.invalid(child(path, name), True, f"must be false if {INT_OR_STRING} is true")
        for name in (PRESERVE_UNKNOWN, EMBEDDED)
        if schema.get(name)
    ]


def _type(schema: JsonObject, level: str, path: str) -> list[FieldError]:
    where, given = child(path, "type"), schema.get("type", "")
    errors = []
    if schema.get(EMBEDDED) and given != "object":
        detail = f"must be object if {EMBEDDED} is true"
        errors.append(field.invalid(where, given, detail) if given else field.required(where, detail))
    elif not given and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE_UNKNOWN):
        errors.append(field.required(where, _EMPTY_TYPE[level]))
    if level == "root" and given and given != "object":
        errors.append(field.invalid(where, given, "must be object at the root"))
    return errors


def _metadata(schema: JsonObject, level: str, path: str) -> list[FieldError]:
    """Validate the schemas of kind, apiVersion and metadata of whole objects: they can restrict names, nothing else."""
    properties, errors = schema.get("properties", {}), []
    if level == "root" or schema.get(EMBEDDED):
        for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            if name in properties and properties[name].get("type", "") != wanted:
                where = child(key(child(path, "properties"), name), "type")
                errors.append(field.invalid(where, properties[name].get("type", ""), f"must be {wanted}"))
    if level == "root" and "metadata" in properties:
        metadata = properties["metadata"]
        rest = {name: value for name, value in metadata.items() if name not in ("type", "default", "description")}
        if set(rest.get("properties", {})) <= {"name", "generateName"}:
            rest.pop("properties", None)
        if any(rest.values()) or metadata.get("description"):
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            errors.append(field.forbidden(key(child(path, "properties"), "metadata"), detail))
    return errors


def _choices(
    schema: JsonObject, level: str, path: str, errors: Errors, *, skips_any_of: bool = False, skips_first: bool = False
) -> None:
    """Validate what a schema adds to the structure: alternatives and the pattern."""
    if not skips_any_of:
        for index, choice in enumerate(schema.get("anyOf", ())):
            _choice(choice, level, f"{child(path, 'anyOf')}[{index}]", errors)
    for index, choice in enumerate(schema.get("allOf", ())):
        _choice(choice, level, f"{child(path, 'allOf')}[{index}]", errors, skips_any_of=skips_first and index == 0)
    for index, choice in enumerate(schema.get("oneOf", ())):
        _choice(choice, level, f"{child(path, 'oneOf')}[{index}]", errors)
    negated = subschema(schema.get("not"))
    if negated is not None:
        _choice(negated, level, child(path, "not"), errors)
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except BadPattern as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            errors.append(field.invalid(child(path, "pattern"), pattern, detail))


def _choice(schema: JsonObject, level: str, path: str, errors: Errors, *, skips_any_of: bool = False) -> None:
    _choices(schema, level, path, errors, skips_any_of=skips_any_of)
    items, properties = subschema(schema.get("items")), schema.get("properties", {})
    if items is not None:
        _choice(items, level, child(path, "items"), errors)
    for name, below in properties.items():
        _choice(below, "field", key(child(path, "properties"), name), errors)
    for name, detail in _FORBIDDEN_IN_CHOICE:
        if schema.get(name) or (name in _POINTERS and name in schema):
            errors.append(field.forbidden(child(path, name), detail))
    if "metadata" in properties:
        where = key(child(path, "properties"), "metadata")
        errors.append(field.forbidden(where, "must not be specified in a nested context"))


def _completeness(schema: JsonObject, spine: JsonObject, path: str, choice_path: str, errors: Errors) -> None:
    """Check that fields and items in the alternatives of `schema` are also in `spine`, the structure around them."""
    negated = subschema(schema.get("not"))
    if negated is not None:
        _complete_choice(negated, spine, path, child(choice_path, "not"), errors)
    for name in ("allOf", "anyOf", "oneOf"):
        for index, choice in enumerate(schema.get(name, ())):
            _complete_choice(choice, spine, path, f"{child(choice_path, name)}[{index}]", errors)


def _complete_choice(choice: JsonObject, spine: JsonObject | None, path: str, choice_path: str, errors: Errors) -> None:
    if spine is None:
        errors.append(field.required(path, f"because it is defined in {choice_path}"))
        return
    _completeness(choice, spine, path, choice_path, errors)
    items = subschema(choice.get("items"))
    if items is not None:
        below = subschema(spine.get("items"))
        _complete_choice(items, below, child(path, "items"), child(choice_path, "items"), errors)
    for name, below in choice.get("properties", {}).items():
        where, choice_where = key(child(path, "properties"), name), key(child(choice_path, "properties"), name)
        _complete_choice(below, spine.get("properties", {}).get(name), where, choice_where, errors)
