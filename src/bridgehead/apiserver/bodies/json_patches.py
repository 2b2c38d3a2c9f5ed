"""JSON patch and JSON merge patch, as Kubernetes' library for them applies them. No function changes its arguments.

JSON patch is RFC 6902 with JSON pointers (RFC 6901), but `replace` adds a field that an object lacks, a negative
index counts from a list's end, a field that is not there is null to `test` and `copy`, and no value may come from the
path "". JSON merge patch is RFC 7386, but an object in a list loses its nulls too, unless the list replaces an object.

Pure: no I/O, no clock, no randomness.
Source: gopkg.in/evanphx/json-patch.v4.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.apiserver.errors import PatchRefused
from bridgehead.apiserver.resource import JsonObject, copied
from bridgehead.objects.integers import parse_integer

MAX_JSON_PATCH_OPERATIONS = 10_000
# Bytes that all copy operations of a patch together may add (JSONPatchMaxCopyBytes in apiserver/pkg/server/config.go).
MAX_JSON_PATCH_COPY_BYTES = 3 * 1024 * 1024


# --- JSON merge patch ----------------------------------------------------------------------------------------


def apply_merge_patch(original: Any, patch: Any) -> Any:
    if not isinstance(original, dict):
        return _without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    merged = dict(original)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged


def _without_nulls(value: Any) -> Any:
    """Return a value without the nulls of its objects. Nulls in lists stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


# --- JSON patch ----------------------------------------------------------------------------------------------


def apply_json_patch(original: Any, operations: Any) -> Any:
    """Return `original` changed by a list of operations. Raises `PatchRefused`."""
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise PatchRefused(400, "json: cannot unmarshal the patch into a list of operations")
    if len(operations) > MAX_JSON_PATCH_OPERATIONS:
        raise PatchRefused(
            413,
            f"The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {len(operations)}",
        )
    document = copied(original)
    copied_bytes = 0
    for operation in operations:
        if operation.get("op") == "copy":
            value = msgspec.json.encode(_found(document, operation, "from"))
            copied_bytes += len(value)
            if copied_bytes > MAX_JSON_PATCH_COPY_BYTES:
                raise PatchRefused(
                    422,
                    f"Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, "
                    f"exceeding the limit {MAX_JSON_PATCH_COPY_BYTES}",
                )
            _add(document, operation, msgspec.json.decode(value))
        else:
            document = _apply_operation(document, operation)
    return document


def _apply_operation(document: Any, operation: JsonObject) -> Any:
    """Apply an operation other than `copy`. A missing value is null."""
    op = operation.get("op")
    is_root = operation.get("path") == ""
    match op:
        case "add":
            _add(document, operation, copied(operation.get("value")))
        case "remove":
            _remove(document, operation, "path")
        case "replace" if is_root:
            if not isinstance(operation.get("value"), dict | list):
                raise PatchRefused(422, "replace operation value must be object or array")
            return copied(operation["value"])
        case "replace":
            _replace(document, operation)
        case "move":
            value = _found(document, operation, "from")
            _remove(document, operation, "from")
            _add(document, operation, value)
        case "test":
            found = document if is_root else _found(document, operation, "path")
            if not _same(found, operation.get("value")):
                raise PatchRefused(422, f"testing value {operation['path']} failed: test failed")
        case _:
            raise PatchRefused(422, f"unexpected kind: {op}")
    return document


def _parent(document: Any, operation: JsonObject, key: str) -> tuple[dict[str, Any] | list[Any], str]:
    """Return the object or list with the value that a JSON pointer of an operation leads to, and its key there."""
    text = operation.get(key)
    if not isinstance(text, str):
        raise PatchRefused(422, f"{operation.get('op')} operation, missing {key} field: missing value")
    steps = [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]
    for step in steps[:-1]:
        document = _value(document, step, text) if isinstance(document, dict | list) else None
    if not steps or not isinstance(document, dict | list):
        raise PatchRefused(422, f"{operation.get('op')} operation does not apply: doc is missing path: {text[:1000]}")
    return document, steps[-1]


def _found(document: Any, operation: JsonObject, key: str) -> Any:
    parent, last = _parent(document, operation, key)
    return _value(parent, last, operation[key])


def _value(parent: dict[str, Any] | list[Any], step: str, path: str) -> Any:
    """Return a value of an object or a list; None for a field that is not there."""
    return parent.get(step) if isinstance(parent, dict) else parent[_index(step, len(parent), path)]


def _index(step: str, length: int, path: str) -> int:
    """Return the index that a step of a pointer is in a list of `length` elements."""
    index = parse_integer(step)
    if index is None or not -length <= index < length:
        raise PatchRefused(
            422, f"Unable to access invalid index: {step[:100]!r} of {path[:1000]}: invalid index referenced"
        )
    return index % length


def _add(document: Any, operation: JsonObject, value: Any) -> None:
    parent, last = _parent(document, operation, "path")
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    else:
        parent.insert(_index(last, len(parent) + 1, operation["path"]), value)


def _replace(document: Any, operation: JsonObject) -> None:
    parent, last = _parent(document, operation, "path")
    value = copied(operation.get("value"))
    if isinstance(parent, dict):
        parent[last] = value
    else:
        parent[_index(last, len(parent), operation["path"])] = value


def _remove(document: Any, operation: JsonObject, key: str) -> None:
    parent, last = _parent(document, operation, key)
    if isinstance(parent, list):
        del parent[_index(last, len(parent), operation[key])]
    elif last in parent:
        del parent[last]
    else:
        raise PatchRefused(422, f"Unable to remove nonexistent key: {last[:1000]}: missing value")


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON texts: unlike Python's, `true` is not 1, and 1 is not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)
