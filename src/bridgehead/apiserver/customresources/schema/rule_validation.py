"""Validation of declared CEL rules: their fields, their expressions, and what these may cost.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go, cel_validation.go.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

from .field_paths import BadFieldPath, resolve
from .node import VALIDATIONS, Node

# The most that one expression, and all of a definition's version, may cost by their estimates.
_MOST_COST, _MOST_TOTAL_COST = 10_000_000, 100_000_000
_UNKNOWN = 2**64 - 1
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def validate_rule_fields(schema: Field) -> None:
    """Validate the rules of one schema without compiling their expressions."""
    schema.at(VALIDATIONS).must_all_obey(_validate_fields, schema.value)


def _has_newlines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _validate_fields(rule: Field, schema: JsonObject) -> None:
    expression, message = rule.at("rule", ""), rule.at("message", "")
    if not expression.value.strip():
        expression.required("rule is not specified")
    elif message and not message.value.strip():
        message.invalid("must be non-empty if specified")
    elif _has_newlines(message.value.strip()):
        message.invalid("message must not contain line breaks")
    elif _has_newlines(expression.value.strip()):
        message.must_be_set("message must be specified if rule contains line breaks")
    message_expression, path = rule.at("messageExpression"), rule.at("fieldPath", "")
    if message_expression and not message_expression.value.strip():
        message_expression.required("messageExpression must be non-empty if specified")
    rule.at("reason").must_be_one_of(_REASONS)
    if path and not path.value.strip():
        path.invalid("must be non-empty if specified")
    if _has_newlines(path.value):
        path.invalid("fieldPath must not contain line breaks")
    if path and not _is_field(path.value, schema):
        path.invalid("must be a valid path")


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
        self._expensive: list[tuple[int, Field]] = []

    def add(self, expression: Field, cost: int) -> None:
        self._total = min(self._total + cost, _UNKNOWN)
        if cost >= _MOST_TOTAL_COST // 100:
            self._expensive = sorted([*self._expensive, (cost, expression)], key=lambda one: -one[0])[:4]

    def validate(self, schema: Field) -> None:
        """Add an error for each expensive rule, and one for the whole schema, if they cost too much."""
        if self._total > _MOST_TOTAL_COST:
            name = f"{VALIDATIONS} estimated rule cost total for entire OpenAPIv3 schema"
            for _, expression in self._expensive:
                expression.forbidden(
                    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
                )
            schema.forbidden(_cost_text(name, self._total, _MOST_TOTAL_COST))


def _cost_text(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"


def validate_rule_programs(
    schema: Field, total: CostTotal, *, is_root: bool, cardinality: int | None, uncorrelated: Field | None
) -> None:
    """Compile the rules of one schema and validate what they may cost.

    `cardinality` is the most values of this schema that an object can have, None if it has no limit. `uncorrelated` is
    the list around the schema whose items have no old values.
    """
    from .rule_programs import compile_node, most_values  # the CEL engine is loaded with the first rule

    count = most_values(schema.value, is_root=is_root) if cardinality is None else cardinality
    compiled_rules = compile_node(Node(schema.value), is_root=is_root)
    for rule, compiled in zip(schema.at(VALIDATIONS).each(), compiled_rules, strict=False):
        expression, message, is_optional = (rule.at(n) for n in ("rule", "messageExpression", "optionalOldSelf"))
        shown = _go_rule(rule.value)
        if compiled.program is None:
            expression.showing(shown).invalid(compiled.error)
        else:
            cost = min(compiled.program.most_cost * count, _UNKNOWN)
            _validate_cost(expression, "estimated rule cost", cost, total)
        if compiled.message_error:
            message.showing(shown).invalid(compiled.message_error)
        elif compiled.message_program is not None:
            cost = compiled.message_program.most_cost
            _validate_cost(message, "estimated messageExpression cost", cost, total)
        if not compiled.uses_old:
            if is_optional.value is not None:
                is_optional.invalid("may not be set if oldSelf is not used in rule")
        elif uncorrelated is not None:
            expression.invalid(
                f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated.path}"
            )


def _validate_cost(expression: Field, name: str, cost: int, total: CostTotal) -> None:
    total.add(expression, cost)
    if cost > _MOST_COST:
        expression.forbidden(_cost_text(name, cost, _MOST_COST))


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
