"""Applied configurations: their errors, and the set of paths that they own.

Pure: no I/O, no clock, no randomness.
Source: structured-merge-diff/typed/validate.go, tofieldset.go.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.go_values import go_type, go_value

from .comparing import group_items
from .errors import BadConfiguration
from .fieldset import EMPTY, MEMBER, FieldSet
from .path_steps import SELF, step_text
from .types import (
    BOOLEAN,
    DEDUCED,
    KEYED,
    LEAF,
    MAP,
    NUMERIC,
    STRING,
    ListType,
    MapType,
    ScalarType,
    Type,
    deduced,
)

_MAX_DEPTH = 200


def field_set(configuration: dict[str, Any], root: MapType) -> FieldSet:
    """Return the paths that a configuration owns. Parents are no members, except for entries of maps and lists."""
    return _map_node(configuration, root) or EMPTY


def _node(value: Any, kind: Type) -> FieldSet | None:
    if kind.kind == LEAF:
        return MEMBER
    if kind.kind == MAP:
        return _map_node(value, kind) if isinstance(value, dict) else None  # type: ignore[arg-type]
    if kind.kind == DEDUCED:
        return _node(value, deduced(value))
    return _list_node(value, kind) if isinstance(value, list) else None  # type: ignore[arg-type]


def _map_node(value: dict[str, Any], kind: MapType) -> FieldSet | None:
    node: FieldSet = {}
    for name, item in value.items():
        if name in kind.untracked:
            continue
        field = kind.child(name)
        if field is None:
            continue
        step, child = field
        inner = _node(item, child)
        is_member = item is None or item == {} or name not in kind.fields
        if is_member:
            node[step] = {SELF: MEMBER, **inner} if inner else MEMBER
        elif inner is not None:
            node[step] = inner
    return node or None


def _list_node(value: list[Any], kind: ListType) -> FieldSet | None:
    node: FieldSet = {}
    for step, values in group_items(value, kind).items():
        inner = _node(values[0], kind.items) if len(values) == 1 else None
        node[step] = {SELF: MEMBER, **inner} if inner else MEMBER
    return node or None


def check(configuration: dict[str, Any], root: MapType) -> None:
    """Raise `BadConfiguration` for unknown fields, values of a wrong type, and elements without or with equal keys."""
    errors: list[str] = []
    _check(configuration, root, "", errors, 0)
    if errors:
        raise BadConfiguration(errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors))


def _check(value: Any, kind: Type, path: str, errors: list[str], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise BadConfiguration(f"{path}: exceeded max depth")
    if value is None:
        return
    match kind:
        case ScalarType():
            problem = _scalar_problem(value, kind.scalar)
            if problem:
                errors.append(f"{path}: {problem}")
        case MapType():
            _check_map(value, kind, path, errors, depth)
        case ListType():
            _check_list(value, kind, path, errors, depth)


def _check_map(value: Any, kind: MapType, path: str, errors: list[str], depth: int) -> None:
    if not isinstance(value, dict):
        errors.append(f"{path}: expected map, got {go_value(value)}")
        return
    for name, item in value.items():
        field = kind.child(name)
        if field is None:
            errors.append(f"{path}.{name}: field not declared in schema")
        else:
            _check(item, field[1], f"{path}.{name}", errors, depth + 1)


def _check_list(value: Any, kind: ListType, path: str, errors: list[str], depth: int) -> None:
    if not isinstance(value, list):
        errors.append(f"{path}: expected list, got {go_value(value)}")
        return
    step_of, seen = kind.step_of, set()
    for index, item in enumerate(value):
        if kind.kind == LEAF:
            _check(item, kind.items, f"{path}[{index}]", errors, depth + 1)
            continue
        step = step_of(item)
        if step is None:
            errors.append(f"{path}: element {index}: {_element_problem(item, kind)}")
            continue
        text = step_text(step)
        if step in seen:
            errors.append(f"{path}: duplicate entries for key {text}")
        seen.add(step)
        _check(item, kind.items, f"{path}{text}", errors, depth + 1)


def _element_problem(item: Any, kind: ListType) -> str:
    if kind.kind != KEYED:
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null"
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if any(item.get(key) is not None for key in kind.keys):
        return "associative list with keys has an element whose key is not a scalar"
    keys = " ".join(f'"{key}"' for key in kind.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] "
        "(and doesn't have default values for any key fields)"
    )


def _scalar_problem(value: Any, scalar: str) -> str:
    is_bool, is_text = isinstance(value, bool), isinstance(value, str)
    is_number = isinstance(value, int | float) and not is_bool
    match scalar:
        case _ if scalar == NUMERIC:
            return "" if is_number else f"expected numeric (int or float), got {go_type(value)}"
        case _ if scalar == STRING:
            return "" if is_text else f"expected string, got &value.valueUnstructured{{Value:{go_value(value)}}}"
        case _ if scalar == BOOLEAN:
            return "" if is_bool else f"expected boolean, got &{{{go_value(value)}}}"
    return "" if is_bool or is_text or is_number else f"expected any scalar, got &{{{go_value(value)}}}"
