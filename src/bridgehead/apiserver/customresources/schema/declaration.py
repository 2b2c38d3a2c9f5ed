"""Validation of the schema that a version of a CustomResourceDefinition declares.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
(validateCustomResourceDefinitionValidation).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bridgehead.apiserver.bodies.shapes import Shape
from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

from .default_values import validate_defaults
from .errors import Errors, quote
from .formats import unrecognized_format
from .list_types import validate_list_and_map_types
from .node import EMBEDDED, LIST_TYPE, META_FIELDS, PRESERVE_UNKNOWN, VALIDATIONS, Node, subschema
from .paths import child, key
from .rule_declaration import CostTotal, validate_rule_fields, validate_rule_programs
from .structure import MAX_DEPTH, is_too_deep, subschemas, unsupported, validate_structural

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
# Fields that may stand at the root if there is a status subresource: without them, the schema of the status says all.
_ALLOWED_AT_ROOT = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    PRESERVE_UNKNOWN: "XPreserveUnknownFields",
    VALIDATIONS: "XValidations",
}


def validate_schema(
    path: str, schema: JsonObject, metadata: Shape, *, has_status: bool = False, limits_cost: bool = True
) -> list[FieldError]:
    """Validate the `openAPIV3Schema` at `path`. An empty list means that `Structural.parse` takes it.

    `metadata` is the shape of ObjectMeta; `has_status`: the version has the status subresource. `limits_cost`
    is False for a stored schema that an update leaves as it is, whose rules may cost more than new ones.
    """
    if is_too_deep(schema):
        return [field.invalid(path, "", f"must not have more than {MAX_DEPTH} levels")]
    errors = _validate_root(path, schema) if has_status else []
    if schema.get("nullable"):
        errors.append(field.forbidden(child(path, "nullable"), "nullable cannot be true at the root"))
    impossible = unsupported(schema)
    structural_errors: Errors = []
    if not impossible:
        structural_errors = validate_structural(path, schema) or validate_defaults(path, Node(schema), metadata)
    walk = _Walk(limits_cost=limits_cost)
    # Rules are compiled only where types are known.
    walk.validate(schema, path, _Context(has_types=not impossible and not structural_errors), is_root=True)
    errors += structural_errors + walk.errors + walk.rule_errors
    if impossible and not errors:
        errors.append(field.invalid(path, "", impossible))
    return errors + walk.total.validate(path)


def format_warnings(schema: JsonObject) -> list[str]:
    """Return warnings about formats in a declared schema that values are not checked for."""
    found: dict[str, None] = {}
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        name = one.get("format", "")
        if name and unrecognized_format(one.get("type", ""), name):
            found[f"unrecognized format {quote(name)}"] = None
        waiting.extend(subschemas(one))
    return list(found)


def _validate_root(path: str, schema: JsonObject) -> list[FieldError]:
    if schema.get("type", "object") != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [field.invalid(child(path, "type"), schema["type"], detail)]
    if any(value and name not in _ALLOWED_AT_ROOT for name, value in schema.items()):
        names = " ".join(_ALLOWED_AT_ROOT.values())
        detail = f"only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
        return [field.invalid(path, schema, detail)]
    return []


@dataclass(frozen=True, slots=True)
class _Context:
    """Where in a schema a walk is.

    `uncorrelated`: the path of the list above whose items have no old values. `cardinality`: the most values of this
    schema that an object can have, None if it has no limit. `has_types`: rules can be compiled.
    """

    no_defaults: str | None = None
    in_metadata: bool = False
    uncorrelated: str = ""
    cardinality: int | None = 1
    has_types: bool = False


class _Walk:
    """Validates a schema and all schemas inside."""

    def __init__(self, *, limits_cost: bool) -> None:
        self.errors: Errors = []
        self.rule_errors: Errors = []
        self.total = CostTotal()
        self._limits_cost = limits_cost

    def validate(self, schema: JsonObject, path: str, context: _Context, *, is_root: bool = False) -> None:
        before = len(self.errors)
        self.errors += _validate_fields(schema, path, context)
        below = replace(context, cardinality=_times(context.cardinality, _most_elements(schema)))
        self._properties(schema, path, below, is_root=is_root)
        choice_context = replace(context, has_types=False)
        negated = subschema(schema.get("not"))
        if negated is not None:
            self.validate(negated, child(path, "not"), choice_context)
        for name in ("allOf", "oneOf", "anyOf"):
            for index, choice in enumerate(schema.get(name, ())):
                self.validate(choice, f"{child(path, name)}[{index}]", choice_context)
        self._items(schema, path, below)
        if schema.get(PRESERVE_UNKNOWN) is False:
            where = child(path, PRESERVE_UNKNOWN)
            self.errors.append(field.invalid(where, False, "must be true or undefined"))
        self.errors += validate_list_and_map_types(schema, path)
        if schema.get(VALIDATIONS):
            self.errors += validate_rule_fields(schema, path)
            if context.has_types and len(self.errors) == before:
                self.rule_errors += validate_rule_programs(
                    schema,
                    path,
                    self.total,
                    is_root=is_root or bool(schema.get(EMBEDDED)),
                    cardinality=context.cardinality,
                    uncorrelated=context.uncorrelated,
                    limits_cost=self._limits_cost,
                )

    def _properties(self, schema: JsonObject, path: str, context: _Context, *, is_root: bool) -> None:
        additional = schema.get("additionalProperties")
        if additional is not None:
            where = child(path, "additionalProperties")
            if schema.get("properties") and additional is not True:
                self.errors.append(field.forbidden(where, "additionalProperties and properties are mutual exclusive"))
            if isinstance(additional, dict):
                below = context
                if context.in_metadata:
                    below = replace(context, no_defaults="inside additionalProperties applying to object metadata")
                self.validate(additional, where, below)
        for name, one in schema.get("properties", {}).items():
            below = context
            if (is_root or schema.get(EMBEDDED)) and name in META_FIELDS:
                below = replace(below, in_metadata=True)
                if is_root:
                    below = replace(below, no_defaults=f"in top-level {name}")
            self.validate(one, key(child(path, "properties"), name), below)

    def _items(self, schema: JsonObject, path: str, context: _Context) -> None:
        items: Any = schema.get("items")
        if items is None:
            return
        if schema.get(LIST_TYPE) != "map" and not context.uncorrelated:
            context = replace(context, uncorrelated=path)
        where = child(path, "items")
        if isinstance(items, dict):
            self.validate(items, where, context)
        else:
            for index, one in enumerate(items):
                self.validate(one, f"{where}[{index}]", context)


def _most_elements(schema: JsonObject) -> int | None:
    """Return how many values a value of this schema can contain for each of its schemas; None without a limit."""
    limit: int | None = 1
    if schema.get("type") == "array":
        limit = schema.get("maxItems")
    elif schema.get("type") == "object" and "additionalProperties" in schema:
        limit = schema.get("maxProperties")
    return None if limit is None else max(limit, 0)


def _times(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other


def _validate_fields(schema: JsonObject, path: str, context: _Context) -> list[FieldError]:
    """Validate the fields of one schema that need no other one."""
    errors: Errors = []
    given = schema.get("type", "")
    if given and given not in _TYPES:
        errors.append(field.not_supported(child(path, "type"), given, _TYPES))
    if "default" in schema and context.no_defaults is not None:
        errors.append(field.forbidden(child(path, "default"), f"must not be set {context.no_defaults}"))
    for name in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
        if schema.get(name) or (name in ("additionalItems", "dependencies", "$ref") and name in schema):
            errors.append(field.forbidden(child(path, name), f"{name} is not supported"))
    if given == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        errors.append(field.forbidden(child(path, "type"), detail))
    if isinstance(schema.get("items"), list) and schema["items"]:
        errors.append(field.forbidden(child(path, "items"), "items must be a schema object and not an array"))
    if context.in_metadata and schema.get(EMBEDDED):
        errors.append(field.forbidden(child(path, EMBEDDED), "must not be used inside of resource meta"))
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(field.forbidden(child(path, "uniqueItems"), detail))
    return errors
