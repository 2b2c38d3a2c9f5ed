"""Validation of declared CEL rules: their fields, their expressions, and what these may cost.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go, cel_validation.go.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

from .errors import Errors
from .field_paths import BadFieldPath, resolve
from .node import VALIDATIONS, Node
from .paths import child

# The most that one expression, and all of a definition's version, may cost by their estimates.
_MOST_COST, _MOST_TOTAL_COST = 10_000_000, 100_000_000
_UNKNOWN = 2**64 - 1
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def validate_rule_fields(schema: JsonObject, path: str) -> list[FieldError]:
    """Validate the rules of one schema without compiling their expressions."""
    errors: Errors = []
    for index, rule in enumerate(schema.get(VALIDATIONS, ())):
        errors += _validate_fields(rule, schema, f"{child(path, VALIDATIONS)}[{index}]")
    return errors


def _has_newlines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _validate_fields(rule: JsonObject, schema: JsonObject, path: str) -> list[FieldError]:
    errors: Errors = []
    expression, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not expression:
        errors.append(field.required(child(path, "rule"), "rule is not specified"))
    elif message and not message.strip():
        errors.append(field.invalid(child(path, "message"), message, "must be non-empty if specified"))
    elif _has_newlines(message.strip()):
        errors.append(field.invalid(child(path, "message"), message, "message must not contain line breaks"))
    elif _has_newlines(expression) and not message:
        detail = "message must be specified if rule contains line breaks"
        errors.append(field.required(child(path, "message"), detail))
    message_expression, field_path = rule.get("messageExpression", ""), rule.get("fieldPath", "")
    if message_expression and not message_expression.strip():
        detail = "messageExpression must be non-empty if specified"
        errors.append(field.required(child(path, "messageExpression"), detail))
    if "reason" in rule:
        errors += field.one_of(child(path, "reason"), rule["reason"], _REASONS)
    where = child(path, "fieldPath")
    if field_path and not field_path.strip():
        errors.append(field.invalid(where, field_path, "must be non-empty if specified"))
    if _has_newlines(field_path):
        errors.append(field.invalid(where, field_path, "fieldPath must not contain line breaks"))
    if field_path and not _is_field(field_path, schema):
        errors.append(field.invalid(where, field_path, "must be a valid path"))
    return errors


def _is_field(path: str, schema: JsonObject) -> bool:
    try:
        resolve(path, Node(schema))
    except BadFieldPath:
        return False
    return True


class CostTotal:
    """The estimated cost of all rules of a schema."""

    def __init__(self) -> None:
        self._total = 0
        self._expensive: list[tuple[int, str]] = []

    def add(self, path: str, cost: int) -> None:
        self._total = min(self._total + cost, _UNKNOWN)
        if cost >= _MOST_TOTAL_COST // 100:
            self._expensive = sorted([*self._expensive, (cost, path)], key=lambda one: -one[0])[:4]

    def validate(self, path: str) -> list[FieldError]:
        """Return an error for each expensive rule, and one for the schema at `path`, if they cost too much."""
        if self._total <= _MOST_TOTAL_COST:
            return []
        detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        total = _cost_text(
            f"{VALIDATIONS} estimated rule cost total for entire OpenAPIv3 schema", self._total, _MOST_TOTAL_COST
        )
        return [*(field.forbidden(where, detail) for _, where in self._expensive), field.forbidden(path, total)]


def _cost_text(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"


def validate_rule_programs(
    schema: JsonObject,
    path: str,
    total: CostTotal,
    *,
    is_root: bool,
    cardinality: int | None,
    uncorrelated: str,
    limits_cost: bool,
) -> list[FieldError]:
    """Compile the rules of one schema and validate what they may cost.

    `cardinality` is the most values of this schema that an object can have, None if it has no limit. `uncorrelated` is
    the path of the list around the schema whose items have no old values, "" if there is none.
    """
    from .programs import compile_node, most_values  # the CEL engine is loaded with the first rule

    errors: Errors = []
    count = most_values(schema, is_root=is_root) if cardinality is None else cardinality
    for index, compiled in enumerate(compile_node(Node(schema), is_root=is_root)):
        rule, where = schema[VALIDATIONS][index], f"{child(path, VALIDATIONS)}[{index}]"
        shown = _go_rule(rule)
        if compiled.program is None:
            errors.append(field.invalid(child(where, "rule"), shown, compiled.error))
        else:
            cost = min(compiled.program.most_cost * count, _UNKNOWN)
            errors += _validate_cost(child(where, "rule"), "estimated rule cost", cost, total, limits_cost)
        if compiled.message_error:
            errors.append(field.invalid(child(where, "messageExpression"), shown, compiled.message_error))
        elif compiled.message_program is not None:
            cost, at = compiled.message_program.most_cost, child(where, "messageExpression")
            errors += _validate_cost(at, "estimated messageExpression cost", cost, total, limits_cost)
        if compiled.uses_old:
            if uncorrelated:
                detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                errors.append(field.invalid(child(where, "rule"), rule["rule"], detail))
        elif "optionalOldSelf" in rule:
            detail = "may not be set if oldSelf is not used in rule"
            errors.append(field.invalid(child(where, "optionalOldSelf"), rule["optionalOldSelf"], detail))
    return errors


def _validate_cost(path: str, name: str, cost: int, total: CostTotal, limits_cost: bool) -> list[FieldError]:
    total.add(path, cost)
    return [field.forbidden(path, _cost_text(name, cost, _MOST_COST))] if limits_cost and cost > _MOST_COST else []


def _go_rule(rule: JsonObject) -> JsonObject:
    """Return a rule as messages show it: with the names of its fields in Go."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
