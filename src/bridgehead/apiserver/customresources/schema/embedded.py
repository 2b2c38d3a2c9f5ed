"""Embedded objects (`x-kubernetes-embedded-resource`): apiVersion, kind and metadata are those of whole objects.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

import json
from typing import Any

from bridgehead.apiserver.bodies.shapes import Shape, conform
from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.metadata_validation import validate_embedded_metadata
from bridgehead.objects.names import check_dns1035_label

from .errors import Errors
from .node import Node
from .paths import Path, child, dotted, key


def coerced(value: Any, node: Node, metadata: Shape, unknown: list[str]) -> Any:
    """Return a value with the metadata of embedded objects as ObjectMeta has it. Raises SchemaMismatch.

    `metadata` is the shape of ObjectMeta. Paths of its unknown fields are appended to `unknown`. The result shares
    parts with the argument.
    """
    return _coerced(value, node, None, metadata, unknown)


def _coerced(value: Any, node: Node, path: Path, metadata: Shape, unknown: list[str]) -> Any:
    result = value
    if type(value) is dict:
        if node.is_embedded:
            result = _coerced_object(value, path, metadata, unknown)
        for name, item in result.items():
            below = node.field(name)
            if below is None or not below.has_embedded:
                continue
            kept = _coerced(item, below, (path, name), metadata, unknown)
            if kept is not item:
                result = {**result, name: kept}
    elif type(value) is list and node.items is not None and node.items.has_embedded:
        result = [_coerced(item, node.items, (path, index), metadata, unknown) for index, item in enumerate(value)]
    return result


def _coerced_object(value: JsonObject, path: Path, metadata: Shape, unknown: list[str]) -> JsonObject:
    for name in ("apiVersion", "kind"):
        if name in value and type(value[name]) is not str:
            raise _mismatch((path, name), value[name], "must be a string")
    if value.get("metadata") is None:
        return {**value, "metadata": {}} if "metadata" in value else value
    where: Path = (path, "metadata")
    try:
        meta, not_known = conform(value["metadata"], metadata)
    except SchemaMismatch as mismatch:
        raise _mismatch(where, value["metadata"], str(mismatch)) from None
    unknown.extend(f"{dotted(where)}.{one}" for one in not_known)
    return {**value, "metadata": meta}


def _mismatch(path: Path, value: Any, detail: str) -> SchemaMismatch:
    shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return SchemaMismatch(f"{dotted(path)}: Invalid value: {shown}: {detail}")


def validate_embedded(value: Any, node: Node, path: str = "", *, is_object: bool = False) -> list[FieldError]:
    """Validate embedded objects, anywhere in a value. `is_object`: the value is itself a whole object."""
    errors: Errors = []
    _validate(value, node, path, errors, is_object=is_object)
    return errors


def _validate(value: Any, node: Node, path: str, errors: Errors, *, is_object: bool = False) -> None:
    if type(value) is dict:
        if is_object or node.is_embedded:
            errors += _validate_object(value, path)
        if node.has_embedded:
            for name, item in value.items():
                below = node.properties.get(name)
                where = child(path, name)
                if below is None:
                    below, where = node.values, key(path, name)
                if below is not None and below.has_embedded:
                    _validate(item, below, where, errors)
    elif type(value) is list and node.items is not None and node.items.has_embedded:
        for index, item in enumerate(value):
            _validate(item, node.items, f"{path}[{index}]", errors)


def _validate_object(value: JsonObject, path: str) -> list[FieldError]:
    errors: Errors = []
    version, kind, metadata = (value.get(name, "") for name in ("apiVersion", "kind", "metadata"))
    where = child(path, "apiVersion")
    if "apiVersion" not in value:
        errors.append(field.required(where))
    elif not isinstance(version, str):
        errors.append(field.invalid(where, version, "must be a string"))
    elif not version:
        errors.append(field.invalid(where, version, "must not be empty"))
    elif version.count("/") > 1:
        errors.append(field.invalid(where, version, f"unexpected GroupVersion string: {version}"))
    where = child(path, "kind")
    if "kind" not in value:
        errors.append(field.required(where))
    elif not isinstance(kind, str):
        errors.append(field.invalid(where, kind, "must be a string"))
    elif not kind:
        errors.append(field.invalid(where, kind, "must not be empty"))
    elif reasons := check_dns1035_label(kind.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(reasons)}"
        errors.append(field.invalid(where, kind, detail))
    if isinstance(metadata, dict):
        errors += field.errors_below(child(path, "metadata"), validate_embedded_metadata, metadata)
    return errors
