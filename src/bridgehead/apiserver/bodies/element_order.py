"""The order of a list that a strategic merge patch has changed.

Elements that the patch has or orders stand in its order, all others in the object's. The two sequences keep their order
and are merged: an element of the object comes first only if it stood before the patch's next one in the object.
Elements that the patch adds therefore stand before the object's other elements.

Pure: no I/O, no clock, no randomness.
Source: `normalizeElementOrder`, `validatePatchWithSetOrderList` and what they call in
apimachinery/pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Any

from bridgehead.apiserver.errors import PatchRefused
from bridgehead.apiserver.go_sorting import sort_stably
from bridgehead.apiserver.go_values import go_type, go_value

DIRECTIVE = "$patch"
DELETE = "delete"


def in_order(items: list[Any], wanted: list[Any], server: list[Any], merge_key: str) -> list[Any]:
    """Return `items` in order: `wanted` is the patch's, `server` the object's. Raises `PatchRefused`.

    `merge_key` is "" for a list of primitives.
    """
    keys = _simple_keys((items, wanted, server), merge_key)
    if keys is not None and (ordered := _in_simple_order(items, *keys)) is not None:
        return ordered
    is_wanted = _membership(wanted, items, merge_key)
    patched = _sorted(deque(item for item, is_in in zip(items, is_wanted, strict=True) if is_in), wanted, merge_key)
    others = _sorted(deque(item for item, is_in in zip(items, is_wanted, strict=True) if not is_in), server, merge_key)
    rank = _ranks(server, merge_key)
    ordered = []
    while patched and others:
        ours, theirs = rank.get(identity(patched[0], merge_key)), rank.get(identity(others[0], merge_key))
        is_before = ours is not None and theirs is not None and theirs < ours
        ordered.append((others if is_before else patched).popleft())
    return [*ordered, *patched, *others]


def _simple_keys(lists: Iterable[list[Any]], merge_key: str) -> list[list[Any]] | None:
    """Return what makes elements the same, for each list: texts, or integers; None if they are something else.

    Nearly all lists are such. They need no check of each element, and no identity with a type.
    """
    found = []
    for items in lists:
        if merge_key and any(type(item) is not dict or DIRECTIVE in item for item in items):
            return None
        found.append([item.get(merge_key) for item in items] if merge_key else items)
    kinds = {type(key) for keys in found for key in keys}
    return found if len(kinds) == 1 and kinds <= {str, int} else None


def _in_simple_order(items: list[Any], keys: list[Any], wanted: list[Any], server: list[Any]) -> list[Any] | None:
    """Return `items` with the keys `keys` in order; None if the object's order lacks one that the patch lacks, too."""
    patch_rank = dict(zip(reversed(wanted), range(len(wanted) - 1, -1, -1), strict=True))
    server_rank = dict(zip(reversed(server), range(len(server) - 1, -1, -1), strict=True))
    if not all(key in patch_rank or key in server_rank for key in keys):
        return None
    positions = range(len(items))
    patched = [n for _, n in sorted([(patch_rank[keys[n]], n) for n in positions if keys[n] in patch_rank])]
    others = [n for _, n in sorted([(server_rank[keys[n]], n) for n in positions if keys[n] not in patch_rank])]
    ordered: list[Any] = []
    at = 0
    for n in patched:
        ours = server_rank.get(keys[n])
        while ours is not None and at < len(others) and server_rank[keys[others[at]]] < ours:
            ordered.append(items[others[at]])
            at += 1
        ordered.append(items[n])
    return ordered + [items[n] for n in others[at:]]


def check_order(items: list[Any], wanted: list[Any], merge_key: str) -> None:
    """Raise `PatchRefused` unless elements that a patch changes or adds are in the order `wanted`."""
    if not items or not wanted:
        return
    if merge_key:
        for item in items:
            _require_map(item)
    kept = [item for item in items if not (merge_key and item.get(DIRECTIVE) == DELETE)]
    position = number = 0
    while position < len(kept) and number < len(wanted):
        if isinstance(kept[position], dict) and DIRECTIVE in kept[position]:
            position += 1
            continue
        position += _is_same_element(kept[position], wanted[number], merge_key)
        number += 1
    if position < len(kept) and number == len(wanted):
        raise PatchRefused(
            500,
            f"The order in patch list:\n{go_value(items)}\n doesn't match $setElementOrder list:\n{go_value(wanted)}\n",
        )


def identity(item: Any, merge_key: str) -> Hashable:
    """Return what makes two elements the same: type and value of the merge key, or of a primitive.

    A map without the key has the identity of one whose key is null. A key that is no primitive is like no other.
    """
    value = item.get(merge_key) if merge_key and isinstance(item, dict) else item
    return type(value), object() if isinstance(value, dict | list) else value


def without_merge_key(item: Any, merge_key: str) -> PatchRefused:
    return PatchRefused(500, f"map: {go_value(item)} does not contain declared merge key: {merge_key}")


def unexpected_type(wanted: str, value: Any) -> PatchRefused:
    return PatchRefused(500, f"expected a {wanted}, but received a {'%!s(<nil>)' if value is None else go_type(value)}")


def require_merge_key(item: Any, merge_key: str) -> None:
    """Raise `PatchRefused` unless an element is a map with the merge key."""
    _require_map(item)
    if merge_key not in item:
        raise without_merge_key(item, merge_key)


def _require_map(item: Any) -> None:
    if not isinstance(item, dict):
        raise unexpected_type("map[string]interface {}", item)


def _require_primitive(value: Any, what: str) -> None:
    """Raise `PatchRefused` for what Go can't compare (kube-apiserver panics)."""
    if isinstance(value, dict | list):
        raise PatchRefused(400, f"{what} of a list that is ordered or merged must be a string, a number or a boolean")


def _is_same_element(one: Any, other: Any, merge_key: str) -> bool:
    if merge_key and not (type(one) is type(other) is dict and merge_key in one and merge_key in other):
        for item in (one, other):
            _require_map(item)
        for item in (one, other):
            require_merge_key(item, merge_key)
    return identity(one, merge_key) == identity(other, merge_key)


def _membership(wanted: list[Any], items: list[Any], merge_key: str) -> Iterable[bool]:
    """Return for each of `items` whether it is in the patch's order."""
    if not merge_key:
        for item in (*wanted, *items):
            _require_primitive(item, "an element")
        members = {identity(item, "") for item in wanted}
        return [identity(item, "") in members for item in items]
    # Go's search ends with an error at the first element that is not a map.
    end = next((number for number, item in enumerate(wanted) if not isinstance(item, dict)), len(wanted))
    members = {identity(item, merge_key) for item in wanted[:end] if merge_key in item}
    found = []
    for item in items:
        require_merge_key(item, merge_key)
        _require_primitive(item[merge_key], f"the merge key {merge_key!r}")
        found.append(identity(item, merge_key) in members)
        if not found[-1] and end < len(wanted):
            raise PatchRefused(500, f"value for key {end} is not a map")
    return found


def _ranks(order: list[Any], merge_key: str) -> dict[Hashable, int]:
    """Return the first place of each element in an order."""
    return {identity(item, merge_key): number for number, item in reversed([*enumerate(order)])}


def _sorted(items: deque[Any], order: list[Any], merge_key: str) -> deque[Any]:
    if merge_key:
        for item in (*items, *order):
            require_merge_key(item, merge_key)
    kept = [item for item in items if not (merge_key and item.get(DIRECTIVE) == DELETE)]
    deleted = [item for item in items if merge_key and item.get(DIRECTIVE) == DELETE]
    rank = _ranks(order, merge_key)
    ranks = [rank.get(identity(item, merge_key)) for item in kept]
    if None not in ranks:
        return deque([*sorted(kept, key=lambda item: rank[identity(item, merge_key)]), *deleted])

    # Kubernetes' comparison puts an element that is not in the order before any other, and any other before it, too.
    def is_less(one: int, other: int) -> bool:
        mine, theirs = ranks[one], ranks[other]
        return mine is None or theirs is None or mine < theirs

    return deque([*(kept[number] for number in sort_stably(range(len(kept)), is_less)), *deleted])
