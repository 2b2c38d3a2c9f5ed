"""Whether a schema is structural: each field has one type, and value checks add nothing to the structure.

Schemas are decoded JSON whose fields have the types of JSONSchemaProps.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apiserver/schema/validation.go, complete.go, convert.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.go_patterns import BadPattern
from bridgehead.apiserver.resource import JsonObject

from .node import (
    CHOICES,
    EMBEDDED,
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE_UNKNOWN,
    VALIDATIONS,
    subschema_at,
)
from .patterns import compile_pattern

# Recursion over schemas and objects must not end the interpreter's stack. Kubernetes has no limit; published
# definitions have at most 40 levels.
MAX_DEPTH = 100

# Fields that may add something to the structure of a schema.
_ADDITIONS = CHOICES | {"pattern"}
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


def validate_structural(schema: Field) -> bool:
    """Add the errors of a schema, sorted by their text. Return whether it is structural."""
    found = Field(schema.value, schema.path)
    _invariants(found, "root")
    _completeness(found, found)
    schema.errors.extend(sorted(found.errors, key=lambda error: f"{error.field}: {error.message}"))
    return not found.errors


def _invariants(schema: Field, level: str) -> None:
    items, is_embedded = subschema_at(schema, "items"), bool(schema.get(EMBEDDED))
    if items.value is not None:
        _invariants(items, "item")
    elif schema.get("type") == "array":
        items.required("must be specified")
    for _, below in schema.at("properties").entries():
        _invariants(below, "field")
    if "additionalProperties" in schema.value:
        additional = schema.at("additionalProperties")
        if level == "root":
            additional.forbidden("must not be used at the root")
        if isinstance(additional.value, dict):
            _invariants(additional, "field")
        if is_embedded:
            additional.forbidden(f"must not be used if {EMBEDDED} is set")
    if schema.get(INT_OR_STRING):
        for name in (PRESERVE_UNKNOWN, EMBEDDED):
            if schema.get(name):
                schema.at(name).invalid(f"must be false if {INT_OR_STRING} is true")
    _choices(schema, either_levels=2)
    _type(schema, level)
    _metadata(schema, level)
    if is_embedded and not schema.get(PRESERVE_UNKNOWN):
        schema.at("properties").must_be_set(f"must not be empty if {EMBEDDED} is true without {PRESERVE_UNKNOWN}")


def _type(schema: Field, level: str) -> None:
    type_ = schema.at("type")
    if schema.get(EMBEDDED) and type_.value != "object":
        detail = f"must be object if {EMBEDDED} is true"
        if type_.must_be_set(detail):
            type_.invalid(detail)
    elif not schema.get(INT_OR_STRING) and not schema.get(PRESERVE_UNKNOWN):
        type_.must_be_set(_EMPTY_TYPE[level])
    if level == "root" and type_ and type_.value != "object":
        type_.invalid("must be object at the root")


def _metadata(schema: Field, level: str) -> None:
    """Validate the schemas of kind, apiVersion and metadata of whole objects: they can restrict names, nothing else."""
    if level != "root" and not schema.get(EMBEDDED):
        return
    properties = schema.at("properties")
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        one = properties.entry(name)
        if one.value is not None and one.get("type") != wanted:
            one.at("type", "").invalid(f"must be {wanted}")
    metadata = properties.entry("metadata")
    if level == "root" and metadata.value is not None:
        rest = {name: value for name, value in metadata.value.items() if name not in ("type", "default", "description")}
        if set(rest.get("properties", {})) <= {"name", "generateName"}:
            rest.pop("properties", None)
        if any(rest.values()) or metadata.get("description"):
            metadata.forbidden(
                "must not specify anything other than name and generateName, but metadata is implicitly specified"
            )


def _choices(schema: Field, *, either_levels: int = 0) -> None:
    """Validate what a schema adds to the structure: alternatives and the pattern.

    An `anyOf` of an integer and a string is allowed in the schema (`either_levels` 1) and in its first `allOf` (2).
    """
    if _ADDITIONS.isdisjoint(schema.value):
        return
    if not (either_levels > 0 and schema.get("anyOf") == _EITHER):
        schema.at("anyOf").must_all_obey(_choice)
    for index, choice in enumerate(schema.at("allOf").each()):
        _choice(choice, either_levels=either_levels - 1 if index == 0 else 0)
    schema.at("oneOf").must_all_obey(_choice)
    subschema_at(schema, "not").must_obey(_choice)
    if pattern := schema.at("pattern"):
        try:
            compile_pattern(pattern.value)
        except BadPattern as error:
            pattern.invalid(f"must be a valid regular expression, but isn't: {error}")


def _choice(schema: Field, *, either_levels: int = 0) -> None:
    _choices(schema, either_levels=either_levels)
    properties = schema.at("properties")
    subschema_at(schema, "items").must_obey(_choice)
    for _, below in properties.entries():
        _choice(below)
    for name, detail in _FORBIDDEN_IN_CHOICE:
        if schema.get(name) or (name in _POINTERS and name in schema.value):
            schema.at(name).forbidden(detail)
    properties.entry("metadata").must_not_exist("must not be specified in a nested context")


def _completeness(schema: Field, spine: Field) -> None:
    """Check that fields and items in the alternatives of `schema` are also in `spine`, the structure around them."""
    if CHOICES.isdisjoint(schema.value):
        return
    subschema_at(schema, "not").must_obey(_complete_choice, spine)
    for name in ("allOf", "anyOf", "oneOf"):
        schema.at(name).must_all_obey(_complete_choice, spine)


def _complete_choice(choice: Field, spine: Field) -> None:
    if not spine.must_exist(f"because it is defined in {choice.path}"):
        return
    _completeness(choice, spine)
    items = subschema_at(choice, "items")
    if items.value is not None:
        _complete_choice(items, subschema_at(spine, "items"))
    for name, below in choice.at("properties").entries():
        _complete_choice(below, spine.at("properties").entry(name))
