"""Embedded objects (`x-kubernetes-embedded-resource`): apiVersion, kind and metadata are those of whole objects.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/objectmeta.
"""

from __future__ import annotations

import json
from typing import Any

from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.metadata_validation import validate_embedded_metadata
from bridgehead.apiserver.shapes import Shape, conform
from bridgehead.objects.names import check_dns1035_label

from .node import Node
from .paths import Path, dotted


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


def validate_embedded(value: Field, node: Node, *, is_object: bool = False) -> None:
    """Validate embedded objects, anywhere in a value. `is_object`: the value is itself a whole object."""
    if type(value.value) is dict:
        if is_object or node.is_embedded:
            _validate_object(value)
        if node.has_embedded:
            for name in value.value:
                below = node.field(name)
                if below is not None and below.has_embedded:
                    validate_embedded(value.at(name) if name in node.properties else value.entry(name), below)
    elif type(value.value) is list and node.items is not None and node.items.has_embedded:
        value.must_all_obey(validate_embedded, node.items)


def _validate_object(obj: Field) -> None:
    for name, check in (("apiVersion", _check_api_version), ("kind", _check_kind)):
        text = obj.at(name)
        if name not in obj.value:
            text.required()
        elif not isinstance(text.value, str):
            text.invalid("must be a string")
        elif not text:
            text.invalid("must not be empty")
        else:
            text.must_pass(check)
    metadata = obj.at("metadata")
    if isinstance(metadata.value, dict):
        validate_embedded_metadata(metadata)


def _check_api_version(version: str) -> list[str]:
    return [f"unexpected GroupVersion string: {version}"] if version.count("/") > 1 else []


def _check_kind(kind: str) -> list[str]:
    reasons = check_dns1035_label(kind.lower())
    return [f"may have mixed case, but should otherwise match: {','.join(reasons)}"] if reasons else []
