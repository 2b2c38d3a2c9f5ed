"""Validation of the JSONPaths of a custom resource: scale, printer columns, selectable fields.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go, pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

from .schema import BadFieldPath, resolve
from .schema.node import Node

_MAX_SELECTABLE = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES = ("string", "boolean", "integer")


def validate_subresources(subresources: Field) -> None:
    scale = subresources.at("scale")
    if scale.value is None:
        return
    for name, root in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        path = scale.at(name)
        if path.must_be_set():
            _validate_below(path, root)
    scale.if_set("labelSelectorPath").must_obey(_validate_below, "spec", "status")


def _validate_below(path: Field, *roots: str) -> None:
    """Validate a path that must be below one of the roots."""
    if path.must_pass(_check_simple) and not path.value.startswith(tuple(f".{root}." for root in roots)):
        where = f".{roots[0]}" if len(roots) == 1 else "either .spec or .status"
        path.invalid(f"should be a json path under {where}")


def _check_simple(path: str) -> list[str]:
    return [] if path.startswith(".") else ["must be a simple json path starting with ."]


def validate_columns(columns: Field) -> None:
    types, formats = f"must be one of {','.join(_COLUMN_TYPES)}", f"must be one of {','.join(_COLUMN_FORMATS)}"
    for column in columns.each():
        type_, format_ = column.at("type"), column.at("format")
        column.at("name").must_be_set()
        if type_.must_be_set(types) and type_.value not in _COLUMN_TYPES:
            type_.invalid(types)
        if format_ and format_.value not in _COLUMN_FORMATS:
            format_.invalid(formats)
        column.at("JSONPath").showing(column.get("jsonPath")).must_be_set_and_pass(_check_simple)


def validate_selectable_fields(fields: Field, schema: JsonObject | None) -> None:
    """Validate selectable fields, each of which must be a field of the schema.

    Without a schema at the level of the fields (the versions or the whole definition), none are accepted.
    """
    if not fields:
        return
    if schema is None:
        of_version = "`version.schema.openAPIV3Schema` is not included"
        of_all = "validations.schema is included"
        why = f"may only be set when {of_all if fields.path == 'spec.selectableFields' else of_version}"
        fields.showing("").invalid(why)
        return
    seen: set[str] = set()
    root = Node(schema)
    for selectable in fields.each():
        path = selectable.at("jsonPath")
        if path.must_be_set():
            _validate_selectable(path, root, seen)
    if len(seen) > _MAX_SELECTABLE:
        fields.showing(seen).too_many(_MAX_SELECTABLE)


def _validate_selectable(path: Field, root: Node, seen: set[str]) -> None:
    """Validate that a path leads to a field of a schema, and not to one of those `seen` before."""
    try:
        found, node = resolve(path.value, root, allows_brackets=False)
    except BadFieldPath as error:
        path.invalid(f"is an invalid path: {error}")
        return
    if found.partition(".")[0] == "metadata":
        path.invalid("must not point to fields in metadata")
    if node.schema.get("type") not in _SELECTABLE_TYPES:
        path.invalid(
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
            "are allowed."
        )
    if found in seen:
        path.duplicate()
    seen.add(found)
