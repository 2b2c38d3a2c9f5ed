"""JSON patch and JSON merge patch.

JSON patch is RFC 6902 with JSON pointers (RFC 6901); JSON merge patch is RFC 7386. No function changes its arguments.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    if not isinstance(patch, dict):
        return patch
    merged = dict(original) if isinstance(original, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged


# --- JSON patch ----------------------------------------------------------------------------------------------


def apply_json_patch(original: Any, operations: Any) -> Any:
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
            path, source = _pointer(operation, "path"), _pointer(operation, "from")
            value = msgspec.json.encode(_find(document, source))
            copied_bytes += len(value)
            if copied_bytes > MAX_JSON_PATCH_COPY_BYTES:
                raise PatchRefused(
                    422,
                    f"Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, "
                    f"exceeding the limit {MAX_JSON_PATCH_COPY_BYTES}",
                )
            document = _add(document, path, msgspec.json.decode(value))
        else:
            document = _apply_operation(document, operation)
    return document


def _apply_operation(document: Any, operation: JsonObject) -> Any:
    """Apply an operation other than `copy`. A missing value is null, as in Kubernetes' library."""
    op, path = operation.get("op"), _pointer(operation, "path")
    match op:
        case "add":
            return _add(document, path, copied(operation.get("value")))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            value = copied(operation.get("value"))
            if not path:
                return value
            _find(document, path)
            return _add(_remove(document, path)[0], path, value)
        case "move":
            source = _pointer(operation, "from")
            if path[: len(source)] == source and path != source:
                raise PatchRefused(422, "move operation: a value can't be moved into one of its own children")
            document, value = _remove(document, source)
            return _add(document, path, value)
        case "test":
            if not _same(_find(document, path), operation.get("value")):
                raise PatchRefused(422, f"testing value {operation['path']} failed: test failed")
            return document
    raise PatchRefused(422, f"unexpected kind: {op}")


def _pointer(operation: JsonObject, key: str) -> list[str]:
    text = operation.get(key)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchRefused(422, f"{operation.get('op')} operation: {key!r} is not a JSON pointer: {text!r}")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _missing(path: Sequence[str]) -> PatchRefused:
    return PatchRefused(422, f"doc is missing path: /{'/'.join(path)}: missing value")


def _index(step: str, length: int, path: Sequence[str]) -> int:
    index = None if step[:1] in ("+", "-") or (len(step) > 1 and step[0] == "0") else parse_integer(step)
    if index is None or index > length:
        raise PatchRefused(422, f"unable to access invalid index {step[:100]!r} of /{'/'.join(path)[:1000]}")
    return index


def _find(document: Any, path: Sequence[str]) -> Any:
    for step in path:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(step, len(document) - 1, path)]
        else:
            raise _missing(path)
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:  # no object becomes another one
        raise _missing(path)
    parent, last = _find(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent), path), value)
    else:
        raise _missing(path)
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    """Return the document without the value, and the value."""
    if not path:
        raise _missing(path)
    value = _find(document, path)
    parent = _find(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return document, value


def _same(one: Any, other: Any) -> bool:
    """JSON equality: unlike Python's, `true` is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
