"""Applied configurations: their errors, and the set of paths that they own.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/typed/validate.go, tofieldset.go.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.go_values import go_type, go_value
from bridgehead.apiserver.shapes import (
    ANY,
    BOOLEAN,
    DEDUCED,
    KEYED,
    LEAF,
    LIST,
    MAP,
    NUMERIC,
    OBJECT,
    STRING,
    Shape,
    deduced,
)

from .comparing import group_items
from .errors import BadConfiguration
from .fieldset import EMPTY, MEMBER, FieldSet
from .path_steps import SELF, field_step, step_text

_MAX_DEPTH = 200


def field_set(configuration: dict[str, Any], root: Shape) -> FieldSet:
    """Return the paths that a configuration owns. Parents are no members, except for entries of maps and lists."""
    return _map_node(configuration, root) or EMPTY


def _node(value: Any, shape: Shape) -> FieldSet | None:
    if shape.relation == LEAF:
        return MEMBER
    if shape.relation == MAP:
        return _map_node(value, shape) if isinstance(value, dict) else None
    if shape.relation == DEDUCED:
        return _node(value, deduced(value))
    return _list_node(value, shape) if isinstance(value, list) else None


def _map_node(value: dict[str, Any], shape: Shape) -> FieldSet | None:
    node: FieldSet = {}
    for name, item in value.items():
        if name in shape.untracked:
            continue
        child = shape.fields.get(name, shape.values)
        if child is None:
            continue
        step, inner = field_step(name), _node(item, child)
        is_member = item is None or item == {} or name not in shape.fields
        if is_member:
            node[step] = {SELF: MEMBER, **inner} if inner else MEMBER
        elif inner is not None:
            node[step] = inner
    return node or None


def _list_node(value: list[Any], shape: Shape) -> FieldSet | None:
    node: FieldSet = {}
    for step, values in group_items(value, shape).items():
        inner = _node(values[0], shape.items) if len(values) == 1 else None
        node[step] = {SELF: MEMBER, **inner} if inner else MEMBER
    return node or None


def check(configuration: dict[str, Any], root: Shape) -> None:
    """Raise `BadConfiguration` for unknown fields, values of a wrong type, and elements without or with equal keys."""
    errors: list[str] = []
    _check(configuration, root, "", errors, 0)
    if errors:
        raise BadConfiguration(errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors))


def _check(value: Any, shape: Shape, path: str, errors: list[str], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise BadConfiguration(f"{path}: exceeded max depth")
    if value is None:
        return
    if shape.form == OBJECT:
        _check_map(value, shape, path, errors, depth)
    elif shape.form == LIST:
        _check_list(value, shape, path, errors, depth)
    elif shape.form != ANY and (problem := _scalar_problem(value, shape.form)):
        errors.append(f"{path}: {problem}")


def _check_map(value: Any, shape: Shape, path: str, errors: list[str], depth: int) -> None:
    if not isinstance(value, dict):
        errors.append(f"{path}: expected map, got {go_value(value)}")
        return
    for name, item in value.items():
        child = shape.fields.get(name, shape.values)
        if child is None:
            errors.append(f"{path}.{name}: field not declared in schema")
        else:
            _check(item, child, f"{path}.{name}", errors, depth + 1)


def _check_list(value: Any, shape: Shape, path: str, errors: list[str], depth: int) -> None:
    if not isinstance(value, list):
        errors.append(f"{path}: expected list, got {go_value(value)}")
        return
    if shape.relation == LEAF:
        for index, item in enumerate(value):
            _check(item, shape.items, f"{path}[{index}]", errors, depth + 1)
        return
    step_of, seen = shape.step_of, set()
    for index, item in enumerate(value):
        step = step_of(item)
        if step is None:
            errors.append(f"{path}: element {index}: {_element_problem(item, shape)}")
            continue
        text = step_text(step)
        if step in seen:
            errors.append(f"{path}: duplicate entries for key {text}")
        seen.add(step)
        _check(item, shape.items, f"{path}{text}", errors, depth + 1)


def _element_problem(item: Any, shape: Shape) -> str:
    if shape.relation != KEYED:
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null"
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if any(item.get(key) is not None for key in shape.keys):
        return "associative list with keys has an element whose key is not a scalar"
    keys = " ".join(f'"{key}"' for key in shape.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] "
        "(and doesn't have default values for any key fields)"
    )


def _scalar_problem(value: Any, form: str) -> str:
    is_bool, is_text = isinstance(value, bool), isinstance(value, str)
    is_number = isinstance(value, int | float) and not is_bool
    if form == NUMERIC:
        return "" if is_number else f"expected numeric (int or float), got {go_type(value)}"
    if form == STRING:
        return "" if is_text else f"expected string, got &value.valueUnstructured{{Value:{go_value(value)}}}"
    if form == BOOLEAN:
        return "" if is_bool else f"expected boolean, got &{{{go_value(value)}}}"
    return "" if is_bool or is_text or is_number else f"expected any scalar, got &{{{go_value(value)}}}"
