"""Validation of default values: they have no unknown fields and fit their schema.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.apiserver.bodies.shapes import Shape
from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resources.shared import field

from .embedded import coerced, validate_embedded
from .errors import Errors
from .node import META_FIELDS, Node
from .paths import child, key
from .pruning import pruned_value
from .ratcheting import ABSENT
from .values import SchemaCheck, validate_value

# Returns a whole object that has a value at the place of a default.
Surround = Callable[[Any], Any]


def validate_defaults(path: str, root: Node, metadata: Shape) -> list[FieldError]:
    """Validate all defaults of a schema. `metadata` is the shape of ObjectMeta."""
    errors: Errors = []
    if root.has_defaults:
        _validate(path, root, root, _object_around, metadata, errors, is_object=True, in_metadata=False)
    return errors


def _object_around(value: Any) -> Any:
    typed = {"apiVersion": "validation/v1", "kind": "Validation"}
    return {**value, **typed} if isinstance(value, dict) else value


def _validate(
    path: str,
    node: Node,
    around: Node,
    surround: Surround,
    metadata: Shape,
    errors: Errors,
    *,
    is_object: bool,
    in_metadata: bool,
) -> None:
    """Validate the defaults of a node and below. `around` is the schema of the whole object that `surround` makes."""
    if is_object:
        in_metadata, surround, around = False, _object_around, node
    if node.has_default:
        where = child(path, "default")
        if in_metadata:
            errors += _validate_metadata(where, node, around, surround, metadata)
        else:
            errors += _validate_value(where, node, metadata, is_object=is_object)
    # Defaults in additionalProperties are forbidden in metadata, and values of a map have no place of their own.
    if node.items is not None and node.items.has_defaults:
        _validate(
            child(path, "items"),
            node.items,
            around,
            lambda value: surround([value]),
            metadata,
            errors,
            is_object=node.items.is_embedded,
            in_metadata=in_metadata,
        )
    for name, below in node.properties.items():
        if below.has_defaults:
            _validate(
                key(child(path, "properties"), name),
                below,
                around,
                lambda value, name=name: surround({name: value}),  # type: ignore[misc]
                metadata,
                errors,
                is_object=below.is_embedded,
                in_metadata=in_metadata or (is_object and name in META_FIELDS),
            )


def _validate_value(path: str, node: Node, metadata: Shape, *, is_object: bool) -> list[FieldError]:
    default, errors = node.default, []
    if pruned_value(default, node) != default:
        errors.append(field.invalid(path, default, "must not have unknown fields"))
    try:
        coerced(default, node, metadata, [])
    except SchemaMismatch as mismatch:
        return [*errors, field.invalid(path, default, str(mismatch))]
    found = validate_embedded(default, node, path, is_object=is_object)
    found = found or validate_value(SchemaCheck(node.schema, node), default, ABSENT, node, path)
    if not found and node.has_rules:
        from .rules import Validator  # the CEL engine is loaded with the first rule

        found = Validator(node, is_root=is_object).validate_default(default, path)
    return errors + found


def _validate_metadata(path: str, node: Node, around: Node, surround: Surround, metadata: Shape) -> list[FieldError]:
    obj = surround(node.default)
    try:
        coerced({"embedded": obj}, _holder(around), metadata, [])
    except SchemaMismatch as mismatch:
        return [field.invalid(path, node.default, f"must result in valid metadata: {mismatch}")]
    found = validate_embedded(obj, around, is_object=True)
    if found:
        texts = ", ".join(f"{error.field}: {error.message}" for error in found)
        texts = f"[{texts}]" if len(found) > 1 else texts
        return [field.invalid(path, node.default, f"must result in valid metadata: {texts}")]
    return validate_value(SchemaCheck(node.schema, node), node.default, ABSENT, node, path)


def _holder(around: Node) -> Node:
    """Return the schema of an object that has an embedded one in its field `embedded`."""
    schema = {**around.schema, "x-kubernetes-embedded-resource": True}
    return Node({"type": "object", "properties": {"embedded": schema}})
