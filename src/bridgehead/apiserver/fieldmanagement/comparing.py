"""Comparison of two objects: the paths that were added or modified, and the paths that are gone.

The functions are called for every write, so they descend only where the objects differ.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/typed/compare.go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bridgehead.apiserver.shapes import DEDUCED, KEYED, LEAF, MAP, SET, Shape, deduced

from .fieldset import EMPTY, MEMBER, FieldSet
from .path_steps import FIELD_STEPS, SELF, sorting_key


class Comparison(NamedTuple):
    """`changed`: the paths that were added or have another value. `removed`: the paths that are gone."""

    changed: FieldSet
    removed: FieldSet


_Pair = tuple[FieldSet | None, FieldSet | None]


def compare(old: dict[str, Any], new: dict[str, Any], root: Shape) -> Comparison:
    """Compare two objects; `old` is {} for an object that did not exist."""
    if not old:
        return Comparison(_grown(new, root) or EMPTY, EMPTY)  # in the order of FieldsV1
    changed, removed = _compare_maps(old, new, root)
    return Comparison(changed or EMPTY, removed or EMPTY)


def _compare(old: Any, new: Any, shape: Shape) -> _Pair:
    relation = shape.relation
    if relation == LEAF:
        return MEMBER, None
    if relation in (KEYED, SET):
        if type(old) is list and type(new) is list:
            return _compare_lists(old, new, shape)
        return MEMBER, None
    if type(old) is dict and type(new) is dict:
        return _compare_maps(old, new, deduced(new) if relation == DEDUCED else shape)
    # A value of a schemaless field became a map, or was one.
    gone = whole(old, shape)
    return whole(new, shape), {step: node for step, node in gone.items() if step != SELF} or None


def _compare_maps(old: dict[str, Any], new: dict[str, Any], shape: Shape) -> _Pair:
    changed: FieldSet = {}
    removed: FieldSet = {}
    fields, values, untracked = shape.fields, shape.values, shape.untracked
    in_both = 0
    for name, value in new.items():
        before = old.get(name)
        if before is not None:
            in_both += 1
        if before is value or before == value or name in untracked:
            continue
        child = fields.get(name, values)
        if child is None:
            continue
        step = "f:" + name
        if before is None:
            added = _grown(value, child) if name in shape.zeroed else whole(value, child)
            if added is not None:
                changed[step] = added
            continue
        if child.relation == LEAF:
            changed[step] = MEMBER
        else:
            _record(step, _compare(before, value, child), changed, removed)
    if in_both < len(old):
        for name, value in old.items():
            if name in new or name in untracked:
                continue
            child = fields.get(name, values)
            if child is not None:
                gone = _grown(value, child) if name in shape.zeroed else whole(value, child)
                if gone is not None:
                    removed["f:" + name] = gone
    return changed or None, removed or None


def _compare_lists(old: list[Any], new: list[Any], shape: Shape) -> _Pair:
    changed: FieldSet = {}
    removed: FieldSet = {}
    steps = [shape.step_of(item) for item in new]
    if len(set(steps)) == len(steps) and steps == [shape.step_of(item) for item in old]:
        # The usual case: the same elements in the same order.
        for step, one, other in zip(steps, old, new, strict=True):
            if step is not None and one != other:
                _record(step, _compare(one, other, shape.items), changed, removed)
        return changed or None, removed or None
    before, after = group_items(old, shape), group_items(new, shape)
    for step, values in after.items():
        present = before.get(step)
        if present is None:
            changed[step] = whole(values[0], shape.items) if len(values) == 1 else MEMBER
        elif present == values:
            continue
        elif len(present) == len(values) == 1:
            _record(step, _compare(present[0], values[0], shape.items), changed, removed)
        else:
            changed[step] = MEMBER
    for step, values in before.items():
        if step not in after:
            removed[step] = whole(values[0], shape.items) if len(values) == 1 else MEMBER
    return changed or None, removed or None


def _record(step: str, found: _Pair, changed: FieldSet, removed: FieldSet) -> None:
    inner_changed, inner_removed = found
    if inner_changed is not None:
        changed[step] = inner_changed
    if inner_removed is not None:
        removed[step] = inner_removed


def whole(value: Any, shape: Shape) -> FieldSet:
    """Return the node of a value that did not exist before: the value itself and everything in it, in order."""
    relation = shape.relation
    if relation == LEAF or not value:
        return MEMBER
    if relation == MAP:
        return _fields({SELF: MEMBER}, value, shape) if type(value) is dict else MEMBER
    if relation == DEDUCED:
        return whole(value, deduced(value))
    return _items({SELF: MEMBER}, value, shape) if type(value) is list else MEMBER


def _fields(node: FieldSet, value: dict[str, Any], shape: Shape) -> FieldSet:
    fields, values, steps = shape.fields, shape.values, FIELD_STEPS
    names = value.keys() | shape.nulls if shape.nulls else value
    for name in sorted(names) if len(names) > 1 else names:
        child = fields.get(name)
        if child is not None:
            node[steps[name]] = MEMBER if child.relation == LEAF else whole(value.get(name), child)
        elif values is not None:
            node["f:" + name] = MEMBER if values.relation == LEAF else whole(value[name], values)
    return node


def _items(node: FieldSet, value: list[Any], shape: Shape) -> FieldSet:
    items = shape.items
    groups = group_items(value, shape)
    for step in sorted(groups, key=sorting_key) if len(groups) > 1 else groups:
        values = groups[step]
        node[step] = whole(values[0], items) if len(values) == 1 else MEMBER
    return node


def _grown(value: Any, shape: Shape) -> FieldSet | None:
    """Return the node of a value whose zero value existed before: what is in it, without the value itself."""
    if not value:
        return None
    relation = shape.relation
    if relation == LEAF:
        return MEMBER
    if relation == MAP:
        return _grown_map(value, shape)
    if relation == DEDUCED:
        return _grown(value, deduced(value))
    return _items({}, value, shape)


def _grown_map(value: dict[str, Any], shape: Shape) -> FieldSet | None:
    node: FieldSet = {}
    zeroed, untracked, fields, values = shape.zeroed, shape.untracked, shape.fields, shape.values
    for name in sorted(value) if len(value) > 1 else value:
        if name in untracked:
            continue
        child = fields.get(name, values)
        if child is None:
            continue
        step = "f:" + name
        if name in zeroed:
            added = _grown(value[name], child)
            if added is not None:
                node[step] = added
        else:
            node[step] = MEMBER if child.relation == LEAF else whole(value[name], child)
    return node or None


def group_items(value: list[Any], shape: Shape) -> dict[str, list[Any]]:
    """Return the elements of a list by their steps, in the list's order. Elements without keys are left out."""
    groups: dict[str, list[Any]] = {}
    step_of = shape.step_of
    for item in value:
        step = step_of(item)
        if step is None:
            continue
        group = groups.get(step)
        if group is None:
            groups[step] = [item]
        else:
            group.append(item)
    return groups
