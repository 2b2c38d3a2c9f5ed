"""Comparison of two objects: the paths that were added or modified, and the paths that are gone.

The functions are called for every write, so they descend only where the objects differ.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/typed/compare.go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .fieldset import EMPTY, MEMBER, FieldSet
from .path_steps import SELF, field_step, sorting_key
from .types import DEDUCED, KEYED, LEAF, MAP, SET, ListType, MapType, Type, deduced


class Comparison(NamedTuple):
    """`changed`: the paths that were added or have another value. `removed`: the paths that are gone."""

    changed: FieldSet
    removed: FieldSet


_Pair = tuple[FieldSet | None, FieldSet | None]


def compare(old: dict[str, Any], new: dict[str, Any], root: MapType) -> Comparison:
    """Compare two objects; `old` is {} for an object that did not exist."""
    if not old:
        return Comparison(_grown(new, root) or EMPTY, EMPTY)  # in the order of FieldsV1
    changed, removed = _compare_maps(old, new, root)
    return Comparison(changed or EMPTY, removed or EMPTY)


def _compare(old: Any, new: Any, kind: Type) -> _Pair:
    relation = kind.kind
    if relation == LEAF:
        return MEMBER, None
    if relation in (KEYED, SET):
        if type(old) is list and type(new) is list:
            return _compare_lists(old, new, kind)  # type: ignore[arg-type]
        return MEMBER, None
    if type(old) is dict and type(new) is dict:
        return _compare_maps(old, new, deduced(new) if relation == DEDUCED else kind)  # type: ignore[arg-type]
    # A value of a schemaless field became a map, or was one.
    gone = whole(old, kind)
    return whole(new, kind), {step: node for step, node in gone.items() if step != SELF} or None


def _compare_maps(old: dict[str, Any], new: dict[str, Any], kind: MapType) -> _Pair:
    changed: FieldSet = {}
    removed: FieldSet = {}
    fields, untracked = kind.fields, kind.untracked
    in_both = 0
    for name, value in new.items():
        before = old.get(name)
        if before is not None:
            in_both += 1
        if before is value or before == value or name in untracked:
            continue
        field = fields.get(name)
        if field is None:
            if kind.values is None:
                continue
            field = (field_step(name), kind.values)
        step, child = field
        if before is None:
            added = _grown(value, child) if name in kind.zeroed else whole(value, child)
            if added is not None:
                changed[step] = added
            continue
        if child.kind == LEAF:
            changed[step] = MEMBER
        else:
            _record(step, _compare(before, value, child), changed, removed)
    if in_both < len(old):
        for name, value in old.items():
            if name in new or name in untracked:
                continue
            field = kind.child(name)
            if field is not None:
                step, child = field
                gone = _grown(value, child) if name in kind.zeroed else whole(value, child)
                if gone is not None:
                    removed[step] = gone
    return changed or None, removed or None


def _compare_lists(old: list[Any], new: list[Any], kind: ListType) -> _Pair:
    changed: FieldSet = {}
    removed: FieldSet = {}
    steps = [kind.step_of(item) for item in new]
    if len(set(steps)) == len(steps) and steps == [kind.step_of(item) for item in old]:
        # The usual case: the same elements in the same order.
        for step, one, other in zip(steps, old, new, strict=True):
            if step is not None and one != other:
                _record(step, _compare(one, other, kind.items), changed, removed)
        return changed or None, removed or None
    before, after = group_items(old, kind), group_items(new, kind)
    for step, values in after.items():
        present = before.get(step)
        if present is None:
            changed[step] = whole(values[0], kind.items) if len(values) == 1 else MEMBER
        elif present == values:
            continue
        elif len(present) == len(values) == 1:
            _record(step, _compare(present[0], values[0], kind.items), changed, removed)
        else:
            changed[step] = MEMBER
    for step, values in before.items():
        if step not in after:
            removed[step] = whole(values[0], kind.items) if len(values) == 1 else MEMBER
    return changed or None, removed or None


def _record(step: str, found: _Pair, changed: FieldSet, removed: FieldSet) -> None:
    inner_changed, inner_removed = found
    if inner_changed is not None:
        changed[step] = inner_changed
    if inner_removed is not None:
        removed[step] = inner_removed


def whole(value: Any, kind: Type) -> FieldSet:
    """Return the node of a value that did not exist before: the value itself and everything in it, in order."""
    relation = kind.kind
    if relation == LEAF or not value:
        return MEMBER
    if relation == MAP:
        return _fields({SELF: MEMBER}, value, kind) if type(value) is dict else MEMBER  # type: ignore[arg-type]
    if relation == DEDUCED:
        return whole(value, deduced(value))
    return _items({SELF: MEMBER}, value, kind) if type(value) is list else MEMBER  # type: ignore[arg-type]


def _fields(node: FieldSet, value: dict[str, Any], kind: MapType) -> FieldSet:
    fields, values = kind.fields, kind.values
    names = value.keys() | kind.nulls if kind.nulls else value
    for name in sorted(names) if len(names) > 1 else names:
        field = fields.get(name)
        if field is not None:
            step, child = field
            node[step] = MEMBER if child.kind == LEAF else whole(value.get(name), child)
        elif values is not None:
            node["f:" + name] = MEMBER if values.kind == LEAF else whole(value[name], values)
    return node


def _items(node: FieldSet, value: list[Any], kind: ListType) -> FieldSet:
    items = kind.items
    groups = group_items(value, kind)
    for step in sorted(groups, key=sorting_key) if len(groups) > 1 else groups:
        values = groups[step]
        node[step] = whole(values[0], items) if len(values) == 1 else MEMBER
    return node


def _grown(value: Any, kind: Type) -> FieldSet | None:
    """Return the node of a value whose zero value existed before: what is in it, without the value itself."""
    if not value:
        return None
    relation = kind.kind
    if relation == LEAF:
        return MEMBER
    if relation == MAP:
        return _grown_map(value, kind)  # type: ignore[arg-type]
    if relation == DEDUCED:
        return _grown(value, deduced(value))
    return _items({}, value, kind)  # type: ignore[arg-type]


def _grown_map(value: dict[str, Any], kind: MapType) -> FieldSet | None:
    node: FieldSet = {}
    zeroed, untracked, fields = kind.zeroed, kind.untracked, kind.fields
    for name in sorted(value) if len(value) > 1 else value:
        if name in untracked:
            continue
        field = fields.get(name) or kind.child(name)
        if field is None:
            continue
        step, child = field
        if name in zeroed:
            added = _grown(value[name], child)
            if added is not None:
                node[step] = added
        else:
            node[step] = MEMBER if child.kind == LEAF else whole(value[name], child)
    return node or None


def group_items(value: list[Any], kind: ListType) -> dict[str, list[Any]]:
    """Return the elements of a list by their steps, in the list's order. Elements without keys are left out."""
    groups: dict[str, list[Any]] = {}
    step_of = kind.step_of
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
