"""Checks of values against a schema, compiled once into closures.

A check returns how many of its parts passed, as kube-openapi counts them: of several alternatives that fail, the errors
of the one with the highest count are shown.

With an old value, a part that did not change since may stay invalid (validation ratcheting): its errors are dropped.

Pure: no I/O, no clock, no randomness. Source: kube-openapi/pkg/validation/validate; OpenAPI 3.0;
apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

from . import errors as words
from .alternatives import all_of, any_of, forbid, one_of
from .errors import Check, Errors, Report
from .formats import format_check, unrecognized_format
from .node import INT_OR_STRING, Node, subschema
from .numbers import integer_check, number_checks
from .paths import Path, dotted
from .patterns import compile_pattern
from .ratcheting import ABSENT, correlation, is_unchanged

# Checks of values of one type: parts that pass at once, and steps that may fail.
Plan = tuple[int, tuple[Check, ...]]

_NONE: type = type(None)
# JSON's name of a type, and what Go calls the format of its values.
_NAMES: dict[type, tuple[str, str]] = {
    str: ("string", ""),
    bool: ("boolean", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
}
_EMPTY: Mapping[str, Any] = {}


class SchemaCheck:
    """The checks of a schema. `node` is the structural schema of the same values, by which lists are correlated.

    A schema inside of allOf, anyOf, oneOf or not has the node of the schema around it.
    """

    __slots__ = ("_plans", "node", "schema")

    def __init__(self, schema: JsonObject, node: Node | None) -> None:
        self.schema = schema
        self.node = node
        self._plans: dict[type, Plan] = {}

    def plan(self, kind: type) -> Plan:
        """Return the checks of values of a Python type."""
        plan = self._plans.get(kind)
        if plan is None:
            # Most fields only ever have values of one type, and many schemas have fields that nobody uses.
            plan = self._plans[kind] = _compile(kind, self.schema, self.node)
        return plan

    def __call__(self, value: Any, old: Any, path: Path, errors: Report) -> int:
        count, steps = self.plan(type(value))
        for step in steps:
            count += step(value, old, path, errors)
        return count


def _compile(kind: type, schema: JsonObject, node: Node | None) -> Plan:
    types, enum = _types(schema), _enum(schema.get("enum"))
    if kind is _NONE:
        return _null_plan(schema, types, enum)
    # YAML has types that JSON does not have; decoding leaves none of their values.
    known = kind if kind in _NAMES else str
    return _plan(known, schema, node, types, _known_format(schema), _choices(schema, node), enum)


def validate_value(check: Check, value: Any, old: Any, node: Node, path: str = "") -> Errors:
    """Return the errors of a value. `old` is its old value or ABSENT; what did not change may be invalid."""
    errors = Report()
    check(value, ABSENT, None, errors)
    if errors and old is not ABSENT:
        # Old values are looked up only here, so that a valid object costs nothing more.
        if is_unchanged(node, old, value):
            return []
        errors = Report()
        check(value, old, None, errors)
    return words.at_fields(errors, path)


def _types(schema: JsonObject) -> tuple[str, ...]:
    if schema.get(INT_OR_STRING):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _known_format(schema: JsonObject) -> str:
    """Return the schema's format, "" for one that is not checked."""
    name: str = schema.get("format", "")
    single = "" if schema.get(INT_OR_STRING) else schema.get("type", "")
    return "" if not name or unrecognized_format(single, name) else name


def _plan(
    kind: type,
    schema: JsonObject,
    node: Node | None,
    types: tuple[str, ...],
    format: str,
    choices: tuple[Check, ...],
    enum: Check | None,
) -> Plan:
    count = 3 + 1  # the schema itself, its alternatives (which count for themselves), and its enum
    steps: list[Check] = []
    if types or format:
        count += 2
        steps += _type_steps(kind, types, format)
    steps += choices
    if kind is str:
        count += 1
        steps += _string_steps(schema)
        known = format_check(format) if format else None
        if known is not None:
            count += 1
            steps.append(_format_step(format, known))
    elif kind in (int, float):
        count += 2
        steps += number_checks(schema, is_int=kind is int)
    elif kind is list:
        count += 2
        steps += _list_steps(schema, node)
    elif kind is dict:
        count += 1
        steps += _object_steps(schema, node)
    if enum is not None:
        steps.append(enum)
    return count, tuple(steps)


def _null_plan(schema: JsonObject, types: tuple[str, ...], enum: Check | None) -> Plan:
    steps = [] if not types or schema.get("nullable") else [_wrong_type(",".join(types), "null")]
    return 1, (*steps, enum) if enum is not None else tuple(steps)


def _wrong_type(wanted: str, got: str) -> Check:
    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        errors.append(words.wrong_type(dotted(path), wanted, got))
        return -1

    return step


def _type_steps(kind: type, types: tuple[str, ...], format: str) -> list[Check]:
    name, value_format = _NAMES[kind]
    is_numeric = "number" in types or "integer" in types
    is_named = name in types or (kind is int and "number" in types)
    as_integer = integer_check(*((format, value_format) if format else (",".join(types), "number")))
    if kind is float and "integer" in types and not is_named:
        return [as_integer]
    if format and kind not in (str, list) and not is_named and format != value_format:
        return [_wrong_type(format, value_format)]
    if format and kind in (str, list) and not is_numeric:
        return []  # Kubernetes leaves strings to the format, and with them lists
    if is_named:
        return [as_integer] if kind is int and "number" not in types else []
    return [_wrong_type(",".join(types), name)]


def _enum(values: list[Any] | None) -> Check | None:
    if not values:
        return None
    known = [(type(value), value) for value in values]
    integers = {value for value in values if type(value) is int}
    numbers = {value for value in values if type(value) in (int, float)}

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        kind = type(value)
        if kind is int or kind is float:
            # As in Go, a number is also converted to the type of the other one: 2.5 is the integer 2.
            if value in numbers or (kind is float and isfinite(value) and int(value) in integers):
                return 0
        elif value is not None and (kind, value) in known:
            return 0
        errors.append(words.unsupported(dotted(path), value, values))
        return 0

    return step


def _format_step(format: str, is_valid: Callable[[str], bool]) -> Check:
    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if not is_valid(value):
            errors.append(words.wrong_type(dotted(path), format, value))
        return 0

    return step


def _string_steps(schema: JsonObject) -> list[Check]:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is None and shortest is None and not pattern:
        return []
    matches = compile_pattern(pattern) if pattern else None

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if longest is not None and len(value) > longest:
            errors.append(Field(value, dotted(path)).too_long(longest))
        elif shortest is not None and len(value) < shortest:
            errors.append(words.failed(dotted(path), value, f"should be at least {shortest} chars long"))
        elif matches is not None and not matches(value):
            errors.append(words.failed(dotted(path), value, f"should match '{pattern}'"))
        return 0

    return [step]


def _list_steps(schema: JsonObject, node: Node | None) -> list[Check]:
    items, least, most = subschema(schema.get("items")), schema.get("minItems"), schema.get("maxItems")
    if items is None and least is None and most is None:
        return []
    check = None if items is None else SchemaCheck(items, None if node is None else node.items)

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        count = 0
        if check is not None:
            old_item = correlation(node, old)
            for index, item in enumerate(value):
                plan = check.plan(type(item))
                count += plan[0]
                if plan[1]:
                    count += _part(check, plan, item, old_item(item), (path, index), errors)
                    if len(errors) > words.MAX_ERRORS:
                        break
        if least is not None and len(value) < least:
            errors.append(words.failed(dotted(path), len(value), f"should have at least {least} items"))
        if most is not None and len(value) > most:
            errors.append(Field(value, dotted(path)).too_many(most))
        return count

    return [step]


def _part(check: SchemaCheck, plan: Plan, value: Any, old: Any, path: tuple[Path, str | int], errors: Report) -> int:
    """Check a part of a list or an object; errors of a part that did not change are dropped."""
    before = len(errors)
    count = 0
    for step in plan[1]:
        count += step(value, old, path, errors)
    if len(errors) > before and old is not ABSENT:
        if id(path) not in errors.changed and is_unchanged(check.node, old, value):
            del errors[before:]
        else:
            errors.changed.add(id(path[0]))
        errors.changed.discard(id(path))  # another path may get the id of one that is gone
    return count


def _object_steps(schema: JsonObject, node: Node | None) -> list[Check]:
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    required: tuple[str, ...] = tuple(schema.get("required", ()))
    additional = schema.get("additionalProperties")
    is_closed = additional is False
    fields = {
        name: SchemaCheck(field_schema, None if node is None else node.field(name))
        for name, field_schema in schema.get("properties", {}).items()
    }
    below = None if node is None else node.additional
    values = SchemaCheck(additional, below) if isinstance(additional, dict) else None

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        if least is not None and len(value) < least:
            errors.append(words.failed(dotted(path), len(value), f"should have at least {least} properties"))
        if most is not None and len(value) > most:
            errors.append(Field(value, dotted(path)).too_many(most))
        count = 0
        olds = old if type(old) is dict else _EMPTY
        for name, item in value.items():
            check = fields.get(name, values)
            if check is None:
                if is_closed:
                    prefix = dotted(path)
                    errors.append(Field(name, prefix).invalid(f"{prefix}.{name} in body is a forbidden property"))
                continue
            plan = check.plan(type(item))
            count += plan[0]
            if plan[1]:
                # Both objects were converted to one version, so that apiVersion and kind have no old value.
                was = ABSENT if path is None and name in ("apiVersion", "kind") else olds.get(name, ABSENT)
                count += _part(check, plan, item, was, (path, name), errors)
                if len(errors) > words.MAX_ERRORS:
                    break
        for name in required:
            if name not in value:
                errors.append(Field(None, dotted((path, name))).required())
        return count

    return [step]


def _choices(schema: JsonObject, node: Node | None) -> tuple[Check, ...]:
    """Return the steps of anyOf, oneOf, allOf and not, in the order of kube-openapi."""
    steps: list[Check] = []
    for key, make in (("anyOf", any_of), ("oneOf", one_of), ("allOf", all_of)):
        if schema.get(key):
            steps.append(make([SchemaCheck(choice, node) for choice in schema[key]]))
    negated = subschema(schema.get("not"))
    if negated is not None:
        steps.append(forbid(SchemaCheck(negated, node)))
    return tuple(steps)
