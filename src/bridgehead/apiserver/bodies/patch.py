"""JSON patch, JSON merge patch and strategic merge patch.

JSON patch is RFC 6902 with JSON pointers (RFC 6901); JSON merge patch is RFC 7386. Strategic merge patch is Kubernetes'
own: lists with a merge key in the schema are merged by this key, and directives (`$patch`, `$retainKeys`,
`$setElementOrder/x`, `$deleteFromPrimitiveList/x`) express what a merge can't. No function changes its arguments.
Pure: no I/O, no clock, no randomness.
Source: community/contributors/devel/sig-api-machinery/strategic-merge-patch.md, apimachinery/pkg/util/strategicpatch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from bridgehead.apiserver.errors import PatchRefused
from bridgehead.apiserver.go_values import go_type, go_value
from bridgehead.apiserver.resource import JsonObject, copied
from bridgehead.objects.integers import parse_integer

from .shapes import ListShape, Shape

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # server-side apply, which `handlers.apply` carries out
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
# Custom resources have no merge keys.
CUSTOM_PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)

MAX_JSON_PATCH_OPERATIONS = 10_000
# Bytes that all copy operations of a patch together may add (JSONPatchMaxCopyBytes in apiserver/pkg/server/config.go).
MAX_JSON_PATCH_COPY_BYTES = 3 * 1024 * 1024

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER_PREFIX = "$setElementOrder"
_ORDER = f"{_ORDER_PREFIX}/"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


def apply_patch(kind: str, original: JsonObject, patch: Any, shape: Shape) -> JsonObject:
    """Return `original` changed by `patch` of the media type `kind`. Raises `PatchRefused`."""
    if kind == JSON_PATCH:
        changed = apply_json_patch(original, patch)
        if not isinstance(changed, dict):
            raise PatchRefused(422, "the patch replaces the object by a value that is not an object")
        return changed
    if kind == MERGE_PATCH:
        merged: JsonObject = apply_merge_patch(original, patch)
        return merged
    return apply_strategic_patch(original, patch, shape)


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


# --- strategic merge patch -----------------------------------------------------------------------------------


def apply_strategic_patch(original: JsonObject, patch: JsonObject, shape: Shape) -> JsonObject:
    return _merge_map(original, patch, shape)


def _merge_map(original: JsonObject, patch: JsonObject, shape: Shape, *, is_new: bool = False) -> JsonObject:
    """Return `original` changed by `patch`. `is_new`: the object has no such map, so that orders have no effect."""
    if _PATCH in patch:
        directive = patch[_PATCH]
        if directive == "replace":
            return {key: copied(value) for key, value in patch.items() if key != _PATCH}
        if directive == "delete":
            return {}
        raise PatchRefused(500, f"unknown patch type: {go_value(directive)} in map: {go_value(patch)}")
    merged = _retain_keys(original, patch)
    if not is_new:
        _check_orders(merged, patch, shape)
    for key, value in patch.items():
        if key == _RETAIN_KEYS or key.startswith((_ORDER_PREFIX, _DELETE_PRIMITIVES)):
            continue
        if value is None:
            merged.pop(key, None)
            continue
        child = shape.child(key)
        present = merged.get(key)
        if isinstance(value, dict):
            if isinstance(present, dict):
                merged[key] = _merge_map(present, value, child, is_new=is_new)
            else:
                merged[key] = _merge_map({}, value, child, is_new=True)
        elif isinstance(value, list) and isinstance(child, ListShape) and child.merges:
            merged[key] = _merge_list(present, value, child) if isinstance(present, list) else _undirected(value)
        else:
            merged[key] = copied(value)
    for key, value in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            field = key.removeprefix(_DELETE_PRIMITIVES)
            if field in merged:
                unwanted = {repr(item) for item in _list(key, value)}
                merged[field] = [item for item in _list(field, merged[field]) if repr(item) not in unwanted]
    for key, value in patch.items():
        if key.startswith(_ORDER) and not is_new:
            field = key.removeprefix(_ORDER)
            if isinstance(merged.get(field), list):
                before = original.get(field)
                merged[field] = _in_order(
                    merged[field], value, before if isinstance(before, list) else [], shape.child(field)
                )
    return merged


def _undirected(value: Any) -> Any:
    """Return what a patch makes of a list that the object does not have: the list without directives."""
    if isinstance(value, list):
        return [_undirected(item) for item in value if not (isinstance(item, dict) and _PATCH in item)]
    if isinstance(value, dict):
        return {
            key: _undirected(item)
            for key, item in value.items()
            if item is not None and key[:1] != "$" and not (isinstance(item, dict) and _PATCH in item)
        }
    return value


def _check_orders(original: JsonObject, patch: JsonObject, shape: Shape) -> None:
    """Raise `PatchRefused` unless the lists of `patch` have the orders that it sets.

    Source: `mergePatchIntoOriginal` in apimachinery.
    """
    for key, wanted in patch.items():
        if not key.startswith(_ORDER_PREFIX):
            continue
        order = _typed_list(wanted)
        prefix, slash, field = key.partition("/")
        if prefix != _ORDER_PREFIX or not slash:
            raise PatchRefused(400, "invalid patch format of setElementOrder list")
        for lists in (original, patch):
            if field in lists:
                _typed_list(lists[field])
        child = shape.child(field)
        _check_order(patch.get(field, []), order, child.merge_key if isinstance(child, ListShape) else "")


def _typed_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _unexpected_type("[]interface {}", value)
    return value


def _unexpected_type(wanted: str, value: Any) -> PatchRefused:
    return PatchRefused(500, f"expected a {wanted}, but received a {'%!s(<nil>)' if value is None else go_type(value)}")


def _check_order(items: list[Any], order: list[Any], merge_key: str) -> None:
    """Raise `PatchRefused` unless the elements that a patch changes or adds are in this order, which may have more.

    Source: `validatePatchWithSetOrderList` in apimachinery.
    """
    if not items or not order:
        return
    if merge_key:
        for item in items:
            if not isinstance(item, dict):
                raise _unexpected_type("map[string]interface {}", item)
    kept = [item for item in items if not (merge_key and item.get(_PATCH) == "delete")]
    position = number = 0
    while position < len(kept) and number < len(order):
        if isinstance(kept[position], dict) and _PATCH in kept[position]:
            position += 1
            continue
        position += _is_same_element(kept[position], order[number], merge_key)
        number += 1
    if position < len(kept) and number == len(order):
        raise PatchRefused(
            500,
            f"The order in patch list:\n{go_value(items)}\n doesn't match {_ORDER_PREFIX} list:\n{go_value(order)}\n",
        )


def _is_same_element(one: Any, other: Any, merge_key: str) -> bool:
    if merge_key:
        for item in (one, other):
            if not isinstance(item, dict):
                raise _unexpected_type("map[string]interface {}", item)
        for item in (one, other):
            if merge_key not in item:
                raise _without_merge_key(item, merge_key)
        one, other = one[merge_key], other[merge_key]
    return type(one) is type(other) and bool(one == other)


def _without_merge_key(item: Any, merge_key: str) -> PatchRefused:
    return PatchRefused(500, f"map: {go_value(item)} does not contain declared merge key: {merge_key}")


def _list(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PatchRefused(400, f"{key}: expected a list")
    return value


def _retain_keys(original: JsonObject, patch: JsonObject) -> JsonObject:
    if _RETAIN_KEYS not in patch:
        return dict(original)
    retained = _list(_RETAIN_KEYS, patch[_RETAIN_KEYS])
    for key, value in patch.items():
        if value is not None and not key.startswith("$") and key not in retained:
            raise PatchRefused(422, f"{_RETAIN_KEYS} list doesn't contain the patch's key {key}")
    return {key: value for key, value in original.items() if key in retained}


def _merge_list(original: list[Any], patch: list[Any], shape: ListShape) -> list[Any]:
    if not shape.merge_key:
        merged_by_text = {repr(item): item for item in patch}
        present = {repr(item) for item in original}
        return original + [item for text, item in merged_by_text.items() if text not in present]
    for item in patch:
        if not isinstance(item, dict):
            raise PatchRefused(
                400, f"a list that is merged by {shape.merge_key!r} has an element that is not an object"
            )
    if any(item.get(_PATCH) == "replace" for item in patch):
        return [copied(item) for item in patch if _PATCH not in item]
    key_of = _key_of(shape)
    deleted = {key_of(item) for item in patch if item.get(_PATCH) == "delete"}
    merged = [item for item in original if key_of(item) not in deleted]
    positions = {key_of(item): position for position, item in enumerate(merged)}
    for item in patch:
        directive = item.get(_PATCH)
        if directive == "delete":
            continue
        if directive is not None:
            raise PatchRefused(500, f"unknown patch type: {go_value(directive)} in map: {go_value(item)}")
        position = positions.get(key_of(item))
        if position is None:
            positions[key_of(item)] = len(merged)
            merged.append(_merge_map({}, item, shape.items, is_new=True))
        else:
            merged[position] = _merge_map(merged[position], item, shape.items)
    return merged


def _key_of(shape: Shape) -> Callable[[Any], str]:
    """Return a function for the identity of list elements.

    Keys are compared as text, as in Kubernetes: the ports 80 and "80" are the same.
    """
    merge_key = shape.merge_key if isinstance(shape, ListShape) else ""

    def key_of(item: Any) -> str:
        if not merge_key:
            return repr(item)
        if not isinstance(item, dict) or merge_key not in item:
            raise _without_merge_key(item, merge_key)
        return str(item[merge_key])

    return key_of


def _in_order(merged: list[Any], wanted: list[Any], before: list[Any], shape: Shape) -> list[Any]:
    """Return `merged` with the elements in `wanted` in that order.

    Elements that only the server has keep their relative order; `before`, the order before the patch, decides how the
    two sequences are interleaved (`normalizeElementOrder` and `mergeSortedSlice` in apimachinery).
    """
    key_of = _key_of(shape)
    rank = {key_of(item): position for position, item in enumerate(wanted)}
    known = deque(sorted((item for item in merged if key_of(item) in rank), key=lambda item: rank[key_of(item)]))
    others = deque(item for item in merged if key_of(item) not in rank)
    position_before = {key_of(item): position for position, item in enumerate(before)}
    ordered: list[Any] = []
    while known and others:
        theirs, ours = position_before.get(key_of(others[0])), position_before.get(key_of(known[0]))
        take_other = theirs is not None and ours is not None and theirs < ours
        ordered.append(others.popleft() if take_other else known.popleft())
    return [*ordered, *known, *others]
