"""Pruning: fields that a manager applied before and does not apply any more, and that nobody else owns, go away.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/merge/update.go (prune), typed/remove.go.
"""

from __future__ import annotations

from typing import Any

from .applied_configuration import field_set
from .fieldset import MEMBER, FieldSet, difference, intersection, union
from .path_steps import SELF
from .types import DEDUCED, LEAF, MAP, ListType, MapType, Type, deduced


def prune(merged: dict[str, Any], last: FieldSet, owned: FieldSet, root: MapType) -> dict[str, Any]:
    """Return `merged` without the items that only `last` has, the paths that the manager applied before.

    `owned` is the union of what all managers own now, including what the manager applies now.
    """
    if not last:
        return merged
    last = with_parents(last, root)
    present = with_parents(field_set(merged, root), root)
    without_last = _paths_with_parents(remove(merged, last, root), root)
    kept = remove(merged, difference(present, union(without_last, with_parents(owned, root))), root)
    # Items without an owner, and those that only hang below removed ones, are not the manager's to remove.
    gone = intersection(difference(present, _paths_with_parents(kept, root)), last)
    return remove(merged, gone, root)


def _paths_with_parents(value: dict[str, Any], root: MapType) -> FieldSet:
    return with_parents(field_set(value, root), root)


def with_parents(fields: FieldSet, kind: Type) -> FieldSet:
    """Return the set with every named field that has members below it as a member (EnsureNamedFieldsAreMembers).

    An object's metadata is none, because it has fields that no manager owns, such as resourceVersion.
    """
    if not fields or kind.kind in (LEAF, DEDUCED):
        return fields
    node: FieldSet = {}
    for step, child in fields.items():
        if step == SELF or not child:
            node[step] = child
        elif isinstance(kind, MapType):
            name = step[2:]
            field = kind.child(name)
            inner = child if field is None else with_parents(child, field[1])
            is_member = name in kind.fields and not (field and isinstance(field[1], MapType) and field[1].untracked)
            node[step] = {SELF: MEMBER, **inner} if is_member else inner
        elif isinstance(kind, ListType):
            node[step] = with_parents(child, kind.items)
        else:
            node[step] = child
    return node


def remove(value: dict[str, Any], unwanted: FieldSet, root: MapType) -> dict[str, Any]:
    """Return an object without the members of `unwanted`."""
    return _remove(value, unwanted, root) or {} if unwanted else value


def _remove(value: Any, unwanted: FieldSet, kind: Type) -> Any:
    """Return what is left of a value; None for nothing."""
    if kind.kind == DEDUCED:
        kind = deduced(value)
    if kind.kind == LEAF or not value:
        return value
    if kind.kind == MAP:
        return _remove_fields(value, unwanted, kind)  # type: ignore[arg-type]
    return _remove_items(value, unwanted, kind)  # type: ignore[arg-type]


def _remove_fields(value: dict[str, Any], unwanted: FieldSet, kind: MapType) -> dict[str, Any] | None:
    left: dict[str, Any] = {}
    for name, item in value.items():
        field = kind.child(name)
        node = None if field is None else unwanted.get(field[0])
        if node is None or field is None:
            left[name] = item
        elif node and SELF not in node:
            rest = _remove(item, node, field[1])
            if rest is not None:
                left[name] = rest
    return left or None


def _remove_items(value: list[Any], unwanted: FieldSet, kind: ListType) -> list[Any] | None:
    left: list[Any] = []
    step_of = kind.step_of
    for item in value:
        step = step_of(item)
        node = None if step is None else unwanted.get(step)
        if node is None:
            left.append(item)
        elif node and SELF not in node:
            rest = _remove(item, node, kind.items)
            if rest is not None:
                left.append(rest)
    return left or None
