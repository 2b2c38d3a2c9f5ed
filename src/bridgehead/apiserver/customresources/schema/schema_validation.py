"""Validation of the schema that a version of a CustomResourceDefinition declares.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go
(validateCustomResourceDefinitionValidation).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import Shape

from .default_validation import validate_defaults
from .errors import Errors, quote
from .formats import unrecognized_format
from .list_type_validation import validate_list_and_map_types
from .node import CHOICES, EMBEDDED, LIST_TYPE, META_FIELDS, PRESERVE_UNKNOWN, VALIDATIONS, Node, subschema_at
from .rule_validation import CostTotal, validate_rule_fields, validate_rule_programs
from .structural_validation import MAX_DEPTH, is_too_deep, subschemas, unsupported, validate_structural

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
# Fields that may stand at the root if there is a status subresource: the status must be valid by its own schema alone.
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


def validate_schema(schema: Field, metadata: Shape, *, has_status: bool = False) -> None:
    """Validate an `openAPIV3Schema`. Without an error, `Structural.parse` takes it.

    `metadata` is the shape of ObjectMeta; `has_status`: the version has the status subresource.
    """
    if is_too_deep(schema.value):
        schema.showing("").invalid(f"must not have more than {MAX_DEPTH} levels")
        return
    before = len(schema.errors)
    if has_status:
        _validate_root(schema)
    if schema.get("nullable"):
        schema.at("nullable").forbidden("nullable cannot be true at the root")
    impossible = unsupported(schema.value)
    is_structural = (
        not impossible
        and validate_structural(schema)
        and schema.must_obey(validate_defaults, Node(schema.value), metadata)
    )
    walk = _Walk(schema.errors)
    # Rules are compiled only where types are known.
    walk.validate(schema, _Context(has_types=is_structural), is_root=True)
    walk.validate_programs()
    if impossible and len(schema.errors) == before:
        schema.showing("").invalid(impossible)
    walk.total.validate(schema)


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


def _validate_root(schema: Field) -> None:
    type_ = schema.at("type", "object")
    if type_.value != "object":
        type_.invalid(
            'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        )
    elif any(value and name not in _ALLOWED_AT_ROOT for name, value in schema.value.items()):
        names = " ".join(_ALLOWED_AT_ROOT.values())
        schema.invalid(
            f"only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
        )


@dataclass(frozen=True, slots=True)
class _Context:
    """Position of a walk in a schema.

    `uncorrelated`: the list above whose items have no old values. `cardinality`: the most values of this schema that
    an object can have, None if it has no limit. `has_types`: rules can be compiled.
    """

    no_defaults: str | None = None
    in_metadata: bool = False
    uncorrelated: Field | None = None
    cardinality: int | None = 1
    has_types: bool = False


class _Walk:
    """Validates a schema and all schemas inside."""

    def __init__(self, errors: Errors) -> None:
        self.total = CostTotal()
        self._errors = errors
        # Schemas whose rules are to be compiled: errors of expressions come after all others.
        self._programs: list[tuple[Field, _Context, bool]] = []

    def validate(self, schema: Field, context: _Context, *, is_root: bool = False) -> None:
        before = len(self._errors)
        is_object = is_root or bool(schema.get(EMBEDDED))
        _validate_fields(schema, context)
        elements = _most_elements(schema.value)
        below = context if elements == 1 else replace(context, cardinality=_times(context.cardinality, elements))
        self._properties(schema, below, is_root=is_root)
        if not CHOICES.isdisjoint(schema.value):
            self._choices(schema, replace(context, has_types=False))
        if "items" in schema.value:
            self._items(schema, below)
        if schema.get(PRESERVE_UNKNOWN) is False:
            schema.at(PRESERVE_UNKNOWN).invalid("must be true or undefined")
        validate_list_and_map_types(schema)
        if schema.get(VALIDATIONS):
            validate_rule_fields(schema)
            if context.has_types and len(self._errors) == before:
                self._programs.append((schema, context, is_object))

    def validate_programs(self) -> None:
        """Validate the expressions of the rules that the walk found."""
        for schema, context, is_object in self._programs:
            validate_rule_programs(
                schema,
                self.total,
                is_root=is_object,
                cardinality=context.cardinality,
                uncorrelated=context.uncorrelated,
            )

    def _properties(self, schema: Field, context: _Context, *, is_root: bool) -> None:
        if "additionalProperties" in schema.value:
            additional = schema.at("additionalProperties")
            if schema.get("properties") and additional.value is not True:
                additional.forbidden("additionalProperties and properties are mutual exclusive")
            if isinstance(additional.value, dict):
                below = context
                if context.in_metadata:
                    below = replace(context, no_defaults="inside additionalProperties applying to object metadata")
                self.validate(additional, below)
        for name, one in schema.at("properties").entries():
            below = context
            if (is_root or schema.get(EMBEDDED)) and name in META_FIELDS:
                below = replace(below, in_metadata=True)
                if is_root:
                    below = replace(below, no_defaults=f"in top-level {name}")
            self.validate(one, below)

    def _choices(self, schema: Field, context: _Context) -> None:
        negated = subschema_at(schema, "not")
        if negated.value is not None:
            self.validate(negated, context)
        for name in ("allOf", "oneOf", "anyOf"):
            for choice in schema.at(name).each():
                self.validate(choice, context)

    def _items(self, schema: Field, context: _Context) -> None:
        items = schema.at("items")
        if schema.get(LIST_TYPE) != "map" and context.uncorrelated is None:
            context = replace(context, uncorrelated=schema)
        for one in (items,) if isinstance(items.value, dict) else items.each():
            self.validate(one, context)


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


def _validate_fields(schema: Field, context: _Context) -> None:
    """Validate the fields of one schema that need no other one."""
    given, type_ = schema.value, schema.if_set("type")
    type_.must_be_one_of(_TYPES)
    if context.no_defaults is not None and "default" in given:
        schema.at("default").forbidden(f"must not be set {context.no_defaults}")
    for name in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
        if given.get(name) or (name in ("additionalItems", "dependencies", "$ref") and name in given):
            schema.at(name).forbidden(f"{name} is not supported")
    if type_.value == "null":
        type_.forbidden("type cannot be set to null, use nullable as an alternative")
    if isinstance(given.get("items"), list) and given["items"]:
        schema.at("items").forbidden("items must be a schema object and not an array")
    if context.in_metadata and given.get(EMBEDDED):
        schema.at(EMBEDDED).forbidden("must not be used inside of resource meta")
    if given.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        schema.at("uniqueItems").forbidden(detail)
