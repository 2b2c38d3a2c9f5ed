"""Pruning: fields that a manager applied before and does not apply any more, and that nobody else owns, go away.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/merge/update.go (prune), typed/remove.go.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.shapes import DEDUCED, LEAF, LIST, MAP, OBJECT, Shape, deduced

from .applied_configuration import field_set
from .fieldset import MEMBER, FieldSet, difference, intersection, union
from .path_steps import SELF, field_step


def prune(merged: dict[str, Any], last: FieldSet, owned: FieldSet, root: Shape) -> dict[str, Any]:
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


def _paths_with_parents(value: dict[str, Any], root: Shape) -> FieldSet:
    return with_parents(field_set(value, root), root)


def with_parents(fields: FieldSet, shape: Shape) -> FieldSet:
    """Return the set with every named field that has members below it as a member (EnsureNamedFieldsAreMembers).

    An object's metadata is none, because it has fields that no manager owns, such as resourceVersion.
    """
    if not fields or shape.relation in (LEAF, DEDUCED):
        return fields
    node: FieldSet = {}
    for step, child in fields.items():
        if step == SELF or not child:
            node[step] = child
        elif shape.form == OBJECT:
            name = step[2:]
            field = shape.fields.get(name, shape.values)
            inner = child if field is None else with_parents(child, field)
            is_member = name in shape.fields and not (field and field.untracked)
            node[step] = {SELF: MEMBER, **inner} if is_member else inner
        elif shape.form == LIST:
            node[step] = with_parents(child, shape.items)
        else:
            node[step] = child
    return node


def remove(value: dict[str, Any], unwanted: FieldSet, root: Shape) -> dict[str, Any]:
    """Return an object without the members of `unwanted`."""
    return _remove(value, unwanted, root) or {} if unwanted else value


def _remove(value: Any, unwanted: FieldSet, shape: Shape) -> Any:
    """Return what is left of a value; None for nothing."""
    if shape.relation == DEDUCED:
        shape = deduced(value)
    if shape.relation == LEAF or not value:
        return value
    if shape.relation == MAP:
        return _remove_fields(value, unwanted, shape)
    return _remove_items(value, unwanted, shape)


def _remove_fields(value: dict[str, Any], unwanted: FieldSet, shape: Shape) -> dict[str, Any] | None:
    left: dict[str, Any] = {}
    for name, item in value.items():
        field = shape.fields.get(name, shape.values)
        node = None if field is None else unwanted.get(field_step(name))
        if node is None or field is None:
            left[name] = item
        elif node and SELF not in node:
            rest = _remove(item, node, field)
            if rest is not None:
                left[name] = rest
    return left or None


def _remove_items(value: list[Any], unwanted: FieldSet, shape: Shape) -> list[Any] | None:
    left: list[Any] = []
    step_of = shape.step_of
    for item in value:
        step = step_of(item)
        node = None if step is None else unwanted.get(step)
        if node is None:
            left.append(item)
        elif node and SELF not in node:
            rest = _remove(item, node, shape.items)
            if rest is not None:
                left.append(rest)
    return left or None
