"""Expressions of webhooks and policies: compiled once, and evaluated with Kubernetes' error texts.

Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/admission/plugin/cel, apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bridgehead.apiserver.cel import (
    BOOL,
    MATCH_CONDITIONS_BUDGET,
    Budget,
    BudgetExceeded,
    CompileError,
    Environment,
    EvaluationError,
    Program,
    Type,
)
from bridgehead.apiserver.cel.admission_environments import admission_environment
from bridgehead.apiserver.resource import JsonObject

_OBJECTS = frozenset({"object", "oldObject", "params", "variables"})


class ExpressionFailed(Exception):
    """An expression could not be compiled or evaluated. The text is Kubernetes'."""


class Expression:
    """A compiled expression. If it does not compile, its evaluation fails."""

    def __init__(self, text: str, environment: Environment, *results: Type) -> None:
        self.text = text
        self.program: Program | None = None
        try:
            self.program = environment.compile(text, result=results or None)
        except CompileError as error:
            self._problem = f"compilation error: {error}"

    def evaluate(self, variables: Mapping[str, Any], budget: Budget) -> Any:
        """Return the value. Raises ExpressionFailed, and BudgetExceeded when the budget is used up."""
        if self.program is None:
            raise ExpressionFailed(self._problem)
        try:
            return self.program.evaluate(variables, budget)
        except EvaluationError as error:
            raise ExpressionFailed(f"expression '{self.text}' resulted in error: {error}") from None


class Variables(Mapping[str, Any]):
    """The variables of a policy in one evaluation. Each is evaluated when an expression uses it, at most once."""

    def __init__(self, expressions: Mapping[str, Expression], variables: Mapping[str, Any], budget: Budget) -> None:
        self._expressions = expressions
        self._known: dict[str, Any] = {}
        self._failed: dict[str, EvaluationError] = {}
        self._variables = {**variables, "variables": self}
        self._budget = budget

    def __getitem__(self, name: str) -> Any:
        if name in self._known:
            return self._known[name]
        if name not in self._failed:
            try:
                value = self._known[name] = self._evaluate(name)
                return value
            except EvaluationError as error:
                self._failed[name] = error
        raise self._failed[name]

    def _evaluate(self, name: str) -> Any:
        expression = self._expressions[name]
        if expression.program is None:
            raise EvaluationError(f'composited variable "{name}" fails to compile')
        try:
            return expression.program.evaluate(self._variables, self._budget)
        except EvaluationError as error:
            raise EvaluationError(f'composited variable "{name}" fails to evaluate: {error}') from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._expressions)

    def __len__(self) -> int:
        return len(self._expressions)


def rough_size(obj: JsonObject, most: int) -> int:
    """Return about how many bytes an object has in JSON; counting ends at `most`."""
    size, waiting = 0, [obj]
    while waiting and size < most:
        value: Any = waiting.pop()
        if isinstance(value, dict):
            size += sum(map(len, value)) + 4 * len(value)
            waiting += value.values()
        elif isinstance(value, list):
            size += 2 * len(value)
            waiting += value
        else:
            size += len(value) if isinstance(value, str) else 4
    return size


def work_size(expressions: Iterable[Expression], obj: JsonObject, most: int) -> int:
    """Return about how many bytes an evaluation works on, at most `most`, which also stands for loops."""
    programs = [one.program for one in expressions if one.program is not None]
    if any(program.has_loops for program in programs):
        return most
    # An expression that reads variables of a policy may read the object by them.
    reads_object = any(name in _OBJECTS for program in programs for name in program.references)
    return rough_size(obj, most) if reads_object else 0


class MatchConditions:
    """The match conditions of a webhook or a policy."""

    def __init__(self, conditions: Sequence[JsonObject], *, has_params: bool = False) -> None:
        environment = admission_environment(has_params=has_params)
        self.expressions = [Expression(one["expression"], environment, BOOL) for one in conditions]

    def hold(self, variables: Mapping[str, Any]) -> bool:
        """Whether all conditions hold. Raises ExpressionFailed if one can't be evaluated and none is false."""
        budget = Budget(MATCH_CONDITIONS_BUDGET)
        errors: list[str] = []
        for expression in self.expressions:
            try:
                if expression.evaluate(variables, budget) is False:
                    return False
            except ExpressionFailed as error:
                errors.append(str(error))
            except BudgetExceeded as error:
                raise ExpressionFailed(str(error)) from None
        if errors:
            raise ExpressionFailed(errors[0] if len(errors) == 1 else f"[{', '.join(dict.fromkeys(errors))}]")
        return True
