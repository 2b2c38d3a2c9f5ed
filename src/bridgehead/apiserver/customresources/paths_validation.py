"""Validation of the JSONPaths of a custom resource: scale, printer columns, selectable fields.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go, pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

from .schema import BadFieldPath, resolve
from .schema.node import Node

_MAX_SELECTABLE = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES = ("string", "boolean", "integer")


def validate_subresources(path: str, subresources: JsonObject) -> list[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return []
    errors = []
    for name, roots in (("specReplicasPath", ("spec",)), ("statusReplicasPath", ("status",))):
        value = scale.get(name, "")
        where = f"{path}.scale.{name}"
        errors += _validate_below(where, value, roots) if value else [field.required(where)]
    if selector := scale.get("labelSelectorPath"):
        errors += _validate_below(f"{path}.scale.labelSelectorPath", selector, ("spec", "status"))
    return errors


def _validate_below(path: str, value: str, roots: Sequence[str]) -> list[FieldError]:
    if errors := _validate_simple(path, value):
        return errors
    if any(value.startswith(f".{root}.") for root in roots):
        return []
    where = f".{roots[0]}" if len(roots) == 1 else "either .spec or .status"
    return [field.invalid(path, value, f"should be a json path under {where}")]


def _validate_simple(path: str, value: str) -> list[FieldError]:
    if not value:
        return [field.invalid(path, value, "must not be empty")]
    if not value.startswith("."):
        return [field.invalid(path, value, "must be a simple json path starting with .")]
    return []


def validate_columns(path: str, columns: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, column in enumerate(columns):
        where = f"{path}[{index}]"
        kind, form, json_path = column.get("type", ""), column.get("format", ""), column.get("jsonPath", "")
        if not column.get("name"):
            errors.append(field.required(f"{where}.name"))
        if not kind:
            errors.append(field.required(f"{where}.type", f"must be one of {','.join(_COLUMN_TYPES)}"))
        elif kind not in _COLUMN_TYPES:
            errors.append(field.invalid(f"{where}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}"))
        if form and form not in _COLUMN_FORMATS:
            errors.append(field.invalid(f"{where}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        where = f"{where}.JSONPath"
        errors += _validate_simple(where, json_path) if json_path else [field.required(where)]
    return errors


def validate_selectable_fields(path: str, fields: Sequence[JsonObject], schema: JsonObject | None) -> list[FieldError]:
    """Validate selectable fields, each of which must be a field of the schema.

    Without a schema at the level of the fields (the versions or the whole definition), none are accepted.
    """
    if not fields:
        return []
    if schema is None:
        of_version = "`version.schema.openAPIV3Schema` is not included"
        of_all = "validations.schema is included"
        why = f"may only be set when {of_all if path == 'spec.selectableFields' else of_version}"
        return [field.invalid(path, "", why)]
    errors = []
    seen: set[str] = set()
    root = Node(schema)
    for index, selectable in enumerate(fields):
        where, value = f"{path}[{index}].jsonPath", selectable.get("jsonPath", "")
        if not value:
            errors.append(field.required(where))
            continue
        try:
            found, node = resolve(value, root, allows_brackets=False)
        except BadFieldPath as error:
            errors.append(field.invalid(where, value, f"is an invalid path: {error}"))
            continue
        if found.partition(".")[0] == "metadata":
            errors.append(field.invalid(where, value, "must not point to fields in metadata"))
        if node.schema.get("type") not in _SELECTABLE_TYPES:
            why = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
                "are allowed."
            )
            errors.append(field.invalid(where, value, why))
        if found in seen:
            errors.append(field.duplicate(where, value))
        seen.add(found)
    if len(seen) > _MAX_SELECTABLE:
        errors.append(field.too_many(path, len(seen), _MAX_SELECTABLE))
    return errors
