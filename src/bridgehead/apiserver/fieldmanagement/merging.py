"""Merge of a live object and an applied configuration: the configuration's values win, everything else stays.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/typed/merge.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from .comparing import group_items
from .types import DEDUCED, LEAF, MAP, ListType, MapType, Type, deduced


def merge(live: dict[str, Any], configuration: dict[str, Any], root: MapType) -> dict[str, Any]:
    """Return the merged object. A null in the configuration takes the place of a leaf, and of what is empty."""
    return _merge_maps(live, configuration, root)


def _merge(live: Any, applied: Any, kind: Type) -> Any:
    """Merge two values; None for null and for none."""
    if kind.kind == DEDUCED:
        kind = deduced(live if applied is None else applied)
    if kind.kind == LEAF:
        return applied
    if kind.kind == MAP:
        if not live:
            return applied
        if applied is None:
            return live
        return _merge_maps(live, applied, kind) if isinstance(live, dict) else applied  # type: ignore[arg-type]
    if not live or not isinstance(live, list):
        return applied
    return _merge_lists(live, applied or [], kind)  # type: ignore[arg-type]


def _merge_maps(live: dict[str, Any], applied: dict[str, Any], kind: MapType) -> dict[str, Any]:
    merged = dict(live)
    for name, value in applied.items():
        field = kind.child(name)
        if field is None:
            continue
        merged[name] = _merge(live.get(name), value, field[1])
    return merged


def _merge_lists(live: list[Any], applied: list[Any], kind: ListType) -> list[Any]:
    ours, theirs = group_items(applied, kind), group_items(live, kind)
    merged: list[Any] = []
    for step in merged_order(list(theirs), list(ours)):
        present = theirs.get(step, [])
        if step not in ours:
            merged += present
        elif len(present) == 1:
            merged.append(_merge(present[0], ours[step][0], kind.items))
        else:
            # Of several live elements with one key, none can be merged: the applied element replaces them.
            merged.append(ours[step][0])
    return merged


def merged_order(live: Collection[str], applied: Collection[str]) -> Iterator[str]:
    """Yield the elements of two lists: the applied ones in their order, the other ones where they are in the live list.

    An element that only the live list has stays before the shared element that follows it there.
    """
    in_live, in_applied = set(live), set(applied)
    # An element that the configuration moves to a later place is skipped at its place in the live list.
    shared = deque(step for step in applied if step in in_live)
    waiting, coming = deque(live), deque(applied)
    while waiting and coming:
        step = waiting[0]
        if step not in in_applied:
            yield waiting.popleft()
        elif shared and step != shared[0]:
            waiting.popleft()
        else:
            if step == coming[0]:
                waiting.popleft()
                shared.popleft()
            yield coming.popleft()
    yield from (step for step in waiting if step not in in_applied)
    yield from coming
