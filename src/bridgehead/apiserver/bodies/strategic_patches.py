"""Strategic merge patch: lists with a merge key are merged by this key, lists without one as sets.

Directives express what a merge can't: `$patch`, `$retainKeys`, `$setElementOrder/x`, `$deleteFromPrimitiveList/x`.
No function changes its arguments. If several elements have one merge key, a patch changes the first and deletes all.
Values are merged if their types in Go are the same, else the patch's replaces the object's.

Pure: no I/O, no clock, no randomness.
Source: apimachinery/pkg/util/strategicpatch/patch.go (StrategicMergeMapPatch),
community/contributors/devel/sig-api-machinery/strategic-merge-patch.md.
"""

from __future__ import annotations

from typing import Any, NoReturn

from bridgehead.apiserver.errors import PatchRefused
from bridgehead.apiserver.go_values import go_type, go_value, quoted
from bridgehead.apiserver.resource import JsonObject, copied
from bridgehead.apiserver.shapes import ListShape, MapShape, Shape, StructShape

from .element_order import DELETE, DIRECTIVE, check_order, identity, in_order, require_merge_key, unexpected_type

_RETAIN_KEYS = "$retainKeys"
_ORDER = "$setElementOrder"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList"


def apply_strategic_patch(original: JsonObject, patch: JsonObject, shape: Shape) -> JsonObject:
    """Return `original` changed by `patch`. Raises `PatchRefused`."""
    return _merge_map(original, patch, shape)


def _merge_map(original: JsonObject, patch: JsonObject, shape: Shape) -> JsonObject:
    if DIRECTIVE in patch:
        directive = patch[DIRECTIVE]
        if directive == "replace":
            return {key: copied(value) for key, value in patch.items() if key != DIRECTIVE}
        if directive == DELETE:
            return {}
        _refuse_directive(patch)
    merged = _retain_keys(original, patch)
    rest = {key: value for key, value in patch.items() if key != _RETAIN_KEYS}
    for key in patch:
        if key.startswith(_ORDER):
            _merge_ordered(merged, rest, key, shape)
    # Go walks through a patch in any order; elements are deleted last here.
    for key in sorted(rest, key=lambda key: key.startswith(_DELETE_PRIMITIVES)):
        if key.startswith(_DELETE_PRIMITIVES):
            _merge_field(merged, _field(key, _DELETE_PRIMITIVES), rest[key], shape, is_deletion=True)
        else:
            _merge_field(merged, key, rest[key], shape)
    return merged


def _merge_field(merged: JsonObject, key: str, value: Any, shape: Shape, *, is_deletion: bool = False) -> None:
    """Change the field `key` of `merged`. `is_deletion`: `value` lists elements that are deleted."""
    present: Any = merged.get(key)
    if value is None:
        merged.pop(key, None)
    elif type(present) is not type(value):
        if is_deletion:
            return
        if _is_directive(value, keeps_nulls=False):
            merged.pop(key, None)
        else:
            merged[key] = _without_directives(value, keeps_nulls=False)
    elif isinstance(value, dict):
        merged[key] = _merge_map(present, value, _field_shape(shape, key))
    elif isinstance(value, list):
        child = _list_shape(shape, key)
        if is_deletion or child.merges:
            merged[key], _ = _merge_list(present, value, child, is_deletion=is_deletion)
        else:
            merged[key] = copied(value)
    else:
        merged[key] = value


def _field_shape(shape: Shape, key: str) -> Shape:
    """Return the shape of a field with merged values. Raises `PatchRefused` where Go's type has no such field."""
    if isinstance(shape, MapShape):
        raise PatchRefused(500, "merging an object in json but data type is not struct, instead is: map")
    if isinstance(shape, StructShape) and key not in shape.fields:
        raise _without_field(shape.name, key)
    if not isinstance(shape, StructShape):
        raise _without_field(shape.go.rpartition(".")[2], key)
    return shape.fields[key]


def _without_field(struct: str, key: str) -> PatchRefused:
    return PatchRefused(500, f"unable to find api field in struct {struct} for the json field {quoted(key)}")


def _list_shape(shape: Shape, key: str) -> ListShape:
    child = _field_shape(shape, key)
    if not isinstance(child, ListShape):
        raise PatchRefused(500, "expected slice or array type, but got: struct")
    return child


def _field(directive: str, prefix: str) -> str:
    """Return the field that a directive is about, such as `finalizers` of `$setElementOrder/finalizers`."""
    name, slash, field = directive.partition("/")
    if name != prefix or not slash:
        kind = "primitive list" if prefix == _DELETE_PRIMITIVES else "setElementOrder list"
        raise PatchRefused(400, f"invalid patch format of {kind}")
    return field


def _refuse_directive(item: JsonObject) -> NoReturn:
    directive = item[DIRECTIVE]
    text = directive if isinstance(directive, str) else _as_text(directive)
    raise PatchRefused(500, f"unknown patch type: {text} in map: {go_value(item)}")


def _as_text(value: Any) -> str:
    """Return what Go's `%s` prints of a value that is not a text."""
    match value:
        case None:
            return "%!s(<nil>)"
        case str():
            return value
        case dict():
            return f"map[{' '.join(f'{key}:{_as_text(item)}' for key, item in sorted(value.items()))}]"
        case list():
            return f"[{' '.join(map(_as_text, value))}]"
    return f"%!s({go_type(value)}={go_value(value)})"


def _without_directives(value: Any, *, keeps_nulls: bool) -> Any:
    """Return what a patch makes of a value that the object does not have: no objects with `$patch`."""
    if isinstance(value, list):
        return [
            _without_directives(item, keeps_nulls=keeps_nulls)
            for item in value
            if not _is_directive(item, keeps_nulls=keeps_nulls)
        ]
    if isinstance(value, dict):
        return {
            key: _without_directives(item, keeps_nulls=keeps_nulls)
            for key, item in value.items()
            if (keeps_nulls or item is not None) and not _is_directive(item, keeps_nulls=keeps_nulls)
        }
    return value


def _is_directive(value: Any, *, keeps_nulls: bool) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value and (keeps_nulls or value[DIRECTIVE] is not None)


def _retain_keys(original: JsonObject, patch: JsonObject) -> JsonObject:
    """Return a copy of `original` with the fields that the patch retains."""
    if _RETAIN_KEYS not in patch:
        return dict(original)
    retained = patch[_RETAIN_KEYS]
    kept = {item for item in retained if isinstance(item, str)} if isinstance(retained, list) else frozenset()
    others = (_DELETE_PRIMITIVES, _ORDER, _RETAIN_KEYS)
    if not isinstance(retained, list) or any(
        key not in kept for key, value in patch.items() if value is not None and not key.startswith(others)
    ):
        raise PatchRefused(400, "invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in kept}


def _merge_ordered(merged: JsonObject, rest: JsonObject, key: str, shape: Shape) -> None:
    """Merge the list of which `$setElementOrder`, the directive `key`, sets the order.

    Removes the directive and the list from `rest`, the part of the patch that is still to be merged.
    Source: `mergePatchIntoOriginal` in apimachinery.
    """
    order = _typed_list(rest.pop(key))
    field = _field(key, _ORDER)
    present = _typed_list(merged[field]) if field in merged else None
    given = _typed_list(rest[field]) if field in rest else None
    child = _list_shape(shape, field)
    check_order(given or [], order, child.merge_key)
    if given is None and present is None:
        return
    server = present or []
    if given is None:
        items = server
    elif present is None:
        items = _without_directives(given, keeps_nulls=True)
    elif child.merges:
        items, server = _merge_list(server, given, child)
    else:
        items = copied(given)
    if not present and not given:
        raise PatchRefused(500, "no elements in any of the given slices")
    merged[field] = in_order(items, order, server, child.merge_key)
    _element_type(present or [], given or [])
    rest.pop(field, None)


def _typed_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise unexpected_type("[]interface {}", value)
    return value


def _element_type(*lists: list[Any]) -> type | None:
    """Return the type of all elements, None without elements. Raises `PatchRefused` if their types differ."""
    kind: type | None = None
    for items in lists:
        for item in items:
            if kind is None and item is None:
                raise PatchRefused(400, f"a list that a patch merges begins with a null: {go_value([*lists])}")
            if kind is None and isinstance(item, list):
                raise PatchRefused(422, "lists of lists are not supported")
            kind = kind or type(item)
            if type(item) is not kind:
                raise PatchRefused(500, f"list element types are not identical: {go_value([*lists])}")
    return kind


def _merge_list(
    present: list[Any], patch: list[Any], shape: ListShape, *, is_deletion: bool = False
) -> tuple[list[Any], list[Any]]:
    """Return the object's list changed by a patch's, and the object's order, which the patch changes too.

    `is_deletion`: `patch` has the elements that are deleted.
    """
    kind = _element_type(present, patch)
    if kind is None:
        return present, present
    if kind is not dict:
        if is_deletion:
            unwanted = set(patch)
            return [item for item in present if item not in unwanted], present
        return in_order(list(dict.fromkeys([*present, *patch])), patch, present, shape.merge_key), present
    if not shape.merge_key:
        kind_name = "struct" if isinstance(shape.items, StructShape) else shape.items.go
        raise PatchRefused(500, f"cannot merge lists without merge key for {kind_name}")
    return _merge_by_key(present, patch, shape)


def _merge_by_key(present: list[Any], patch: list[Any], shape: ListShape) -> tuple[list[Any], list[Any]]:
    merge_key = shape.merge_key
    changes, deleted, is_replaced = _directives(patch, merge_key)
    kept, tail = _without_deleted(present, deleted, merge_key)
    if is_replaced:
        replaced = copied(changes)
        return in_order(replaced, [], replaced, merge_key), kept + tail
    merged = list(kept)
    positions: dict[Any, int] = {}
    for position, item in enumerate(merged):
        if merge_key in item:
            positions.setdefault(identity(item, merge_key), position)
    for change in changes:
        require_merge_key(change, merge_key)
        position = positions.setdefault(identity(change, merge_key), len(merged))
        if position == len(merged):
            merged.append(copied(change))
        else:
            merged[position] = _merge_map(merged[position], change, shape.items)
    added = merged[len(kept) :]
    # Go's list is an array: what is added takes the places of what was deleted, as long as there are any.
    array = kept + (added + tail[len(added) :])[: len(tail)]
    return in_order(merged, changes, kept, merge_key), array


def _directives(patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any], bool]:
    """Return a patch's elements without directives, those to delete, and whether the patch replaces the list."""
    changes: list[Any] = []
    deleted: list[Any] = []
    is_replaced = False
    for item in patch:
        if DIRECTIVE not in item:
            changes.append(item)
            continue
        match item[DIRECTIVE]:
            case "delete":
                require_merge_key(item, merge_key)
                deleted.append(item)
            case "replace":
                is_replaced = True
            case "merge":
                raise PatchRefused(500, "merging lists cannot yet be specified in the patch")
            case _:
                _refuse_directive(item)
    return changes, deleted, is_replaced


def _without_deleted(present: list[Any], deleted: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Return the elements that stay, and those that Go's array then has behind them.

    Each deletion moves the following elements forward by one place, and leaves the last place as it is.
    """
    if not deleted:
        return present, []
    positions: dict[Any, list[int]] = {}
    for position, item in enumerate(present):
        if merge_key in item:
            positions.setdefault(identity(item, merge_key), []).append(position)
    is_kept = [True] * len(present)
    last = len(present) - 1
    tail: list[Any] = []
    for item in deleted:
        for position in positions.pop(identity(item, merge_key), ()):
            tail.append(present[last])
            is_kept[position] = False
            while last >= 0 and not is_kept[last]:
                last -= 1
    return [item for item, is_in in zip(present, is_kept, strict=True) if is_in], tail[::-1]
