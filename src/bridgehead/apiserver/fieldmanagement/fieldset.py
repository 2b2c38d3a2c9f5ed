"""Sets of paths, in the form of FieldsV1: nested dicts from steps to nodes.

A node without children is a member. A node with children is a member only if it has the step `.`. The root is no
member: an empty root is the empty set. A `FieldSet` is never changed after it has been built, so that sets share parts;
an operation without effect returns its argument.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/fieldpath/set.go, serialize.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .path_steps import SELF, parse_step, sorting_key

# Steps to nodes. The values have the same type.
FieldSet = dict[str, Any]

EMPTY: FieldSet = {}
# A member without children.
MEMBER: FieldSet = {}


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in either set."""
    if not one or not other:
        return one or other
    return _union(one, other)


def _union(one: FieldSet, other: FieldSet) -> FieldSet:
    if one is other:
        return one
    if not one or not other:
        node = one or other
        return node if not node or SELF in node else {SELF: MEMBER, **node}
    merged = dict(one)
    for step, node in other.items():
        present = merged.get(step)
        merged[step] = node if present is None else _union(present, node)
    return merged


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in `one` and not in `other`. A path below a member of `other` stays."""
    if not one or not other:
        return one
    return _minus(one, other, is_root=True) or EMPTY


def _minus(one: FieldSet, other: FieldSet, *, is_root: bool = False) -> FieldSet | None:
    if not one:
        return None if not other or SELF in other else one
    if not other:
        return _without_self(one)
    kept: FieldSet = {}
    is_same = True
    for step, node in one.items():
        theirs = other.get(step)
        left = node if theirs is None else None if step == SELF else _minus(node, theirs)
        if left is not None:
            kept[step] = left
        is_same = is_same and left is node
    return one if is_same else _node(kept, is_root=is_root)


def _without_self(node: FieldSet) -> FieldSet | None:
    if SELF not in node:
        return node
    return {step: child for step, child in node.items() if step != SELF} or None


def _node(children: FieldSet, *, is_root: bool) -> FieldSet | None:
    """Return the node with these children; None for no member."""
    if not children:
        return None
    return MEMBER if len(children) == 1 and SELF in children and not is_root else children


def without(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in `one` that are neither in `other` nor below a member of it."""
    if not one or not other:
        return one
    kept: FieldSet = {}
    for step, node in one.items():
        theirs = other.get(step)
        if theirs is None:
            kept[step] = node
        elif theirs and SELF not in theirs and step != SELF:
            left = _node(without(node, theirs), is_root=False) if node else node
            if left is not None:
                kept[step] = left
    return one if len(kept) == len(one) and all(kept[step] is node for step, node in one.items()) else kept


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths in both sets."""
    if not one or not other:
        return EMPTY
    return _common(one, other, is_root=True) or EMPTY


def _common(one: FieldSet, other: FieldSet, *, is_root: bool = False) -> FieldSet | None:
    if not one:
        return MEMBER if not other or SELF in other else None
    if not other:
        return MEMBER if SELF in one else None
    common: FieldSet = {}
    for step, node in one.items():
        theirs = other.get(step)
        if theirs is not None:
            both = _common(node, theirs)
            if both is not None:
                common[step] = both
    return _node(common, is_root=is_root)


def contains(one: FieldSet, other: FieldSet) -> bool:
    """Whether every path in `other` is in `one`."""
    for step, node in other.items():
        mine = one.get(step)
        if mine is None:
            return False
        if mine is node or (not mine and step == SELF):
            continue
        is_member = not mine or SELF in mine
        if (not node and not is_member) or (node and not contains(mine or {SELF: MEMBER}, node)):
            return False
    return True


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Whether the path is a member."""
    node = fields
    for step in path:
        child = node.get(step)
        if child is None:
            return False
        node = child
    return bool(path) and (not node or SELF in node)


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the members. The members of a node come before the members of its children."""
    steps = sorted((step for step in fields if step != SELF), key=sorting_key)
    for step in steps:
        if not fields[step] or SELF in fields[step]:
            yield (*prefix, step)
    for step in steps:
        yield from paths(fields[step], (*prefix, step))


def in_order(fields: FieldSet) -> FieldSet:
    """Return the set with its steps in the order of FieldsV1."""
    steps = list(fields)
    if len(steps) > 1:
        # Fields sort as text, and "." sorts before them; a node has no other steps beside fields.
        has_fields = steps[0][0] == "f" or steps[-1][0] == "f"
        steps.sort(key=None if has_fields else sorting_key)
    return {step: in_order(node) if (node := fields[step]) else MEMBER for step in steps}


def parse_fields(value: Any) -> FieldSet:
    """Return the set in a FieldsV1 document from a client. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("FieldsV1 must be an object")
    fields: FieldSet = {}
    for step, child in value.items():
        if step == SELF:
            fields[SELF] = MEMBER
            continue
        fields[parse_step(step)] = parse_fields({} if child is None else child)
    return MEMBER if len(fields) == 1 and SELF in fields else fields
