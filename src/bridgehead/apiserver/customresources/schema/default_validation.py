"""Validation of default values: they have no unknown fields and fit their schema.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.shapes import Shape

from .embedded import coerced, validate_embedded
from .node import META_FIELDS, Node
from .pruning import pruned_value
from .ratcheting import ABSENT
from .values import SchemaCheck, validate_value

# Returns a whole object that has a value at the place of a default.
Surround = Callable[[Any], Any]


def validate_defaults(schema: Field, root: Node, metadata: Shape) -> None:
    """Validate all defaults of a schema, whose tree is `root`. `metadata` is the shape of ObjectMeta."""
    if root.has_defaults:
        _validate(schema, root, root, _object_around, metadata, is_object=True, in_metadata=False)


def _object_around(value: Any) -> Any:
    typed = {"apiVersion": "validation/v1", "kind": "Validation"}
    return {**value, **typed} if isinstance(value, dict) else value


def _validate(
    schema: Field, node: Node, around: Node, surround: Surround, metadata: Shape, *, is_object: bool, in_metadata: bool
) -> None:
    """Validate the defaults of a schema and below. `around` is that of the whole object that `surround` makes."""
    if is_object:
        in_metadata, surround, around = False, _object_around, node
    if node.has_default:
        if in_metadata:
            _validate_metadata(schema.at("default"), node, around, surround, metadata)
        else:
            _validate_value(schema.at("default"), node, metadata, is_object=is_object)
    # Defaults in additionalProperties are forbidden in metadata, and values of a map have no place of their own.
    if node.items is not None and node.items.has_defaults:
        _validate(
            schema.at("items"),
            node.items,
            around,
            lambda value: surround([value]),
            metadata,
            is_object=node.items.is_embedded,
            in_metadata=in_metadata,
        )
    for name, below in node.properties.items():
        if below.has_defaults:
            _validate(
                schema.at("properties").entry(name),
                below,
                around,
                lambda value, name=name: surround({name: value}),  # type: ignore[misc]
                metadata,
                is_object=below.is_embedded,
                in_metadata=in_metadata or (is_object and name in META_FIELDS),
            )


def _validate_value(default: Field, node: Node, metadata: Shape, *, is_object: bool) -> None:
    if pruned_value(default.value, node) != default.value:
        default.invalid("must not have unknown fields")
    try:
        coerced(default.value, node, metadata, [])
    except SchemaMismatch as mismatch:
        default.invalid(str(mismatch))
        return
    path = default.path
    embedded = Field(default.value, path)
    validate_embedded(embedded, node, is_object=is_object)
    found = embedded.errors or validate_value(SchemaCheck(node.schema, node), default.value, ABSENT, node, path)
    if not found and node.has_rules:
        from .rules import Validator  # the CEL engine is loaded with the first rule

        found = Validator(node, is_root=is_object).validate_default(default.value, path)
    default.errors.extend(found)


def _validate_metadata(default: Field, node: Node, around: Node, surround: Surround, metadata: Shape) -> None:
    obj = Field(surround(default.value))
    try:
        coerced({"embedded": obj.value}, _holder(around), metadata, [])
    except SchemaMismatch as mismatch:
        default.invalid(f"must result in valid metadata: {mismatch}")
        return
    validate_embedded(obj, around, is_object=True)
    if obj.errors:
        texts = ", ".join(f"{error.field}: {error.message}" for error in obj.errors)
        default.invalid(f"must result in valid metadata: {f'[{texts}]' if len(obj.errors) > 1 else texts}")
    else:
        check = SchemaCheck(node.schema, node)
        default.errors.extend(validate_value(check, default.value, ABSENT, node, default.path))


def _holder(around: Node) -> Node:
    """Return the schema of an object that has an embedded one in its field `embedded`."""
    schema = {**around.schema, "x-kubernetes-embedded-resource": True}
    return Node({"type": "object", "properties": {"embedded": schema}})
