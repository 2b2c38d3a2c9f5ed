"""Compilation of the CEL rules of one schema.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from bridgehead.apiserver.cel import (
    BOOL,
    STRING,
    CompileError,
    Environment,
    EvaluationError,
    Program,
    Type,
    WrongResult,
)
from bridgehead.apiserver.cel.schema_types import MOST_REQUEST_BYTES, least_bytes, type_of_schema
from bridgehead.apiserver.cel.types import optional_of
from bridgehead.apiserver.resource import JsonObject

from .field_paths import BadFieldPath, resolve
from .node import VALIDATIONS, Node


@dataclass(slots=True)
class CompiledRule:
    """A rule with its programs, or the errors of their compilation.

    `message` is shown when the rule fails, `shown` when it cannot be evaluated. `path` is the field of errors, below
    the value of the rule. `is_old_optional`: the rule is evaluated for new values, too.
    """

    type: Type
    message: str
    shown: str
    message_expression: str
    reason: str
    is_old_optional: bool
    program: Program | None = None
    message_program: Program | None = None
    error: str = ""
    message_error: str = ""
    path: str = ""

    @property
    def uses_old(self) -> bool:
        return self.program is not None and "oldSelf" in self.program.references

    def decoded(self, value: Any) -> Any:
        """Return a value as programs have it. Raises EvaluationError."""
        if self.type.decode is None:
            return value
        try:
            return self.type.decode(value)
        except ValueError as error:
            raise EvaluationError(str(error)) from None


def compile_node(node: Node, *, is_root: bool) -> list[CompiledRule]:
    """Return the rules of a schema; none for values that expressions cannot use."""
    rules: list[JsonObject] = node.schema.get(VALIDATIONS, [])
    self_type = type_of_schema(node.schema, is_root=is_root) if rules else None
    if self_type is None:
        return []
    plain, optional = Environment({"self": self_type, "oldSelf": self_type}), None
    compiled = []
    for rule in rules:
        environment = plain
        if rule.get("optionalOldSelf"):
            optional = optional or Environment({"self": self_type, "oldSelf": optional_of(self_type)})
            environment = optional
        compiled.append(_compile(rule, node, self_type, environment))
    return compiled


def most_values(schema: JsonObject, *, is_root: bool) -> int:
    """Return how many values of a schema fit into one request."""
    return MOST_REQUEST_BYTES // (least_bytes(schema, is_root=is_root) + 1)


def _compile(rule: JsonObject, node: Node, type: Type, environment: Environment) -> CompiledRule:
    expression, message = rule.get("rule", ""), rule.get("message", "").strip()
    shown = message or expression.strip()
    compiled = CompiledRule(
        type=type,
        message=message or f"failed rule: {shown}",
        shown=shown,
        message_expression=rule.get("messageExpression", ""),
        reason=rule.get("reason", ""),
        is_old_optional=bool(rule.get("optionalOldSelf")),
    )
    if not expression.strip():
        return compiled
    try:
        compiled.program = environment.compile(expression, result=BOOL)
    except WrongResult:
        compiled.error = "cel expression must evaluate to a bool"
        return compiled
    except CompileError as error:
        compiled.error = str(error)
        return compiled
    if compiled.message_expression:
        try:
            compiled.message_program = environment.compile(compiled.message_expression, result=STRING)
        except WrongResult:
            compiled.message_error = "messageExpression must evaluate to a string"
        except CompileError as error:
            compiled.message_error = f"messageExpression {error}"
    if rule.get("fieldPath"):
        with contextlib.suppress(BadFieldPath):
            compiled.path, _ = resolve(rule["fieldPath"], node)
    return compiled
