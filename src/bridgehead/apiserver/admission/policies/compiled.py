"""The expressions of a policy, and their evaluation for one request and one parameter.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/admission/plugin/policy/validating/validator.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridgehead.apiserver.admission.evaluation import (
    Expression,
    ExpressionFailed,
    MatchConditions,
    Variables,
)
from bridgehead.apiserver.cel import BOOL, STRING, Budget, BudgetExceeded, Environment, Type
from bridgehead.apiserver.cel.admission_environments import APPLY_CONFIGURATION, JSON_PATCHES, admission_environment
from bridgehead.apiserver.cel.types import DYN, NULL
from bridgehead.apiserver.cel.values import cel_type
from bridgehead.apiserver.resource import JsonObject

# The longest message that an expression may make, in bytes.
_MOST_MESSAGE_BYTES = 5 * 1024
_MOST_ANNOTATION_CHARACTERS = 10 * 1024
_NO_REASON = "Invalid"


class CompiledPolicy:
    """The match conditions and variables of a policy of either kind."""

    def __init__(self, spec: JsonObject, *, can_patch: bool) -> None:
        self._has_params, self._can_patch = "paramKind" in spec, can_patch
        self.conditions = MatchConditions(spec.get("matchConditions", ()), has_params=self._has_params)
        self._types: dict[str, Type] | None = {} if spec.get("variables") else None
        self._variables: dict[str, Expression] = {}
        for one in spec.get("variables", ()):
            expression = Expression(one["expression"], self.environment())
            self._variables[one["name"]] = expression
            if self._types is not None:
                self._types[one["name"]] = DYN if expression.program is None else expression.program.result

    def environment(self, *, has_authorizer: bool = True) -> Environment:
        """Return the environment of the policy's expressions, with the variables that are compiled so far."""
        return admission_environment(
            has_params=self._has_params,
            has_authorizer=has_authorizer,
            can_patch=self._can_patch,
            variables=self._types,
        )

    @property
    def expressions(self) -> Sequence[Expression]:
        """All expressions of the policy."""
        return [*self.conditions.expressions, *self._variables.values()]

    def complete(self, variables: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """Return `variables` with the policy's own, which spend from `budget` when they are evaluated."""
        return {**variables, "variables": Variables(self._variables, variables, budget)}


@dataclass(frozen=True, slots=True)
class Denial:
    """A validation that failed. `index` is its place in the policy; `is_error`: it could not be evaluated."""

    index: int
    message: str
    reason: str = _NO_REASON
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a policy. `annotations` are pairs of key and value for the audit event."""

    denials: tuple[Denial, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    annotation_errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: Expression
    message_expression: Expression | None
    message: str
    reason: str


class ValidatingRules(CompiledPolicy):
    """The expressions of a ValidatingAdmissionPolicy."""

    def __init__(self, spec: JsonObject) -> None:
        super().__init__(spec, can_patch=False)
        environment, messages = self.environment(), self.environment(has_authorizer=False)
        self._validations = [
            _Validation(
                Expression(one["expression"], environment, BOOL),
                Expression(one["messageExpression"], messages, STRING) if one.get("messageExpression") else None,
                one.get("message", "").strip(),
                one.get("reason", _NO_REASON),
            )
            for one in spec.get("validations", ())
        ]
        self._annotations = [
            (one["key"], Expression(one["valueExpression"].strip(), environment, STRING, NULL))
            for one in spec.get("auditAnnotations", ())
        ]

    @property
    def expressions(self) -> Sequence[Expression]:
        messages = [one.message_expression for one in self._validations if one.message_expression is not None]
        annotations = [expression for _, expression in self._annotations]
        return [*super().expressions, *(one.expression for one in self._validations), *messages, *annotations]

    def evaluate(self, variables: Mapping[str, Any]) -> Outcome:
        """Evaluate the policy. `variables` are those of the request, and `params`."""
        try:
            if not self.conditions.hold(variables):
                return Outcome()
        except ExpressionFailed as error:
            return Outcome((Denial(0, str(error), is_error=True),))
        try:
            denials = self._deny(variables)
            return self._annotate(variables, denials)
        except BudgetExceeded as error:
            return Outcome((Denial(0, str(error), is_error=True),))

    def _deny(self, variables: Mapping[str, Any]) -> tuple[Denial, ...]:
        budget = Budget()
        complete = self.complete(variables, budget)
        failed: list[tuple[int, _Validation]] = []
        denials: list[Denial] = []
        for index, one in enumerate(self._validations):
            try:
                if one.expression.evaluate(complete, budget) is not True:
                    failed.append((index, one))
            except ExpressionFailed as error:
                denials.append(Denial(index, str(error), is_error=True))
        for index, one in failed:
            try:
                message = _message(one, complete, budget)
                denials.append(Denial(index, message, one.reason))
            except BudgetExceeded as error:
                denials.append(Denial(index, f"failed messageExpression: {error}", is_error=True))
        return tuple(sorted(denials, key=lambda denial: denial.index))

    def _annotate(self, variables: Mapping[str, Any], denials: tuple[Denial, ...]) -> Outcome:
        budget = Budget()
        complete = self.complete(variables, budget)
        found: list[tuple[str, str]] = []
        errors: list[str] = []
        for key, expression in self._annotations:
            try:
                value = expression.evaluate(complete, budget)
            except ExpressionFailed as error:
                errors.append(str(error))
                continue
            if isinstance(value, str):
                if value.strip():
                    found.append((key, value.strip()[:_MOST_ANNOTATION_CHARACTERS]))
            elif value is not None:
                problem = f"valueExpression '{expression.text}' resulted in unsupported return type: {cel_type(value)}"
                errors.append(f"{problem}. Return type must be either string or null.")
        return Outcome(denials, tuple(found), tuple(errors))


def _message(validation: _Validation, variables: Mapping[str, Any], budget: Budget) -> str:
    """Return why a validation failed: what its messageExpression makes, its message, or its expression."""
    message = ""
    if validation.message_expression is not None:
        try:
            value = validation.message_expression.evaluate(variables, budget)
            message = value.strip() if isinstance(value, str) else ""
        except ExpressionFailed:
            message = ""
    if len(message.encode()) > _MOST_MESSAGE_BYTES or "\n" in message:
        message = ""
    return message or validation.message or f"failed expression: {validation.expression.text.strip()}"


class MutatingRules(CompiledPolicy):
    """The expressions of a MutatingAdmissionPolicy. `mutations` are pairs of patch type and expression."""

    def __init__(self, spec: JsonObject) -> None:
        super().__init__(spec, can_patch=True)
        environment = self.environment()
        self.mutations = [
            (
                one["patchType"],
                Expression(one["applyConfiguration"]["expression"], environment, APPLY_CONFIGURATION)
                if one["patchType"] == "ApplyConfiguration"
                else Expression(one["jsonPatch"]["expression"], environment, JSON_PATCHES),
            )
            for one in spec.get("mutations", ())
        ]

    @property
    def expressions(self) -> Sequence[Expression]:
        return [*super().expressions, *(expression for _, expression in self.mutations)]
