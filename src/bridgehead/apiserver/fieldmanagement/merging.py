"""Merge of a live object and an applied configuration: the configuration's values win, everything else stays.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/typed/merge.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from bridgehead.apiserver.shapes import DEDUCED, LEAF, MAP, Shape, deduced

from .comparing import group_items


def merge(live: dict[str, Any], configuration: dict[str, Any], root: Shape) -> dict[str, Any]:
    """Return the merged object. A null in the configuration takes the place of a leaf, and of what is empty."""
    return _merge_maps(live, configuration, root)


def _merge(live: Any, applied: Any, shape: Shape) -> Any:
    """Merge two values; None for null and for none."""
    if shape.relation == DEDUCED:
        shape = deduced(live if applied is None else applied)
    if shape.relation == LEAF:
        return applied
    if shape.relation == MAP:
        if not live:
            return applied
        if applied is None:
            return live
        return _merge_maps(live, applied, shape) if isinstance(live, dict) else applied
    if not live or not isinstance(live, list):
        return applied
    return _merge_lists(live, applied or [], shape)


def _merge_maps(live: dict[str, Any], applied: dict[str, Any], shape: Shape) -> dict[str, Any]:
    merged = dict(live)
    for name, value in applied.items():
        child = shape.fields.get(name, shape.values)
        if child is not None:
            merged[name] = _merge(live.get(name), value, child)
    return merged


def _merge_lists(live: list[Any], applied: list[Any], shape: Shape) -> list[Any]:
    ours, theirs = group_items(applied, shape), group_items(live, shape)
    present = [(step, item) for item in live if (step := shape.step_of(item)) is not None]
    merged: list[Any] = []
    for position, step in merged_order([step for step, _ in present], list(ours)):
        if position is not None:
            merged.append(present[position][1])
        elif len(theirs.get(step, ())) == 1:
            merged.append(_merge(theirs[step][0], ours[step][0], shape.items))
        else:
            # Several live elements with one key cannot be merged: the applied element replaces them.
            merged.append(ours[step][0])
    return merged


def merged_order(live: Sequence[str], applied: Sequence[str]) -> Iterator[tuple[int | None, str]]:
    """Yield the elements of two lists: the applied ones in their order, the other ones where they are in the live list.

    The live list may have several elements of one step. An element that only the live list has comes with its position
    there, and stays before the shared element that follows it; each applied element comes once.
    """
    in_live, in_applied = set(live), set(applied)
    shared = deque(step for step in applied if step in in_live)
    coming = deque(applied)
    done: set[str] = set()
    position = 0
    while position < len(live) or coming:
        step = live[position] if position < len(live) else None
        if step is not None and step not in in_applied:
            yield position, step
            position += 1
            continue
        if step is not None and coming and step != coming[0] and shared and step != shared[0]:
            position += 1  # the configuration moves this element to a later place
            continue
        if step is not None and (step in done or (coming and step == coming[0])):
            position += 1
        if coming:
            applied_step = coming.popleft()
            done.add(applied_step)
            if shared and shared[0] == applied_step:
                shared.popleft()
            yield None, applied_step
