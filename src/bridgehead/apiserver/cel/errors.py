"""Errors of CEL, and the form in which positions in an expression are printed.

    CompileError         the expression has syntax or type errors
      WrongResult        the expression has another type than the one that its use requires
      ProgramError       the expression has constants with which it cannot become a program
    EvaluationError      the evaluation of a valid expression failed: no such key, integer overflow, ...
      CostLimitExceeded  one evaluation cost more than an expression may
    BudgetExceeded       the evaluations of one request together cost more than they may

Pure: no I/O, no clock, no randomness. Source: cel-go `common/error.go`, `common/errors.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# cel-go stops recording errors after this number.
_MOST_ISSUES = 100


@dataclass(frozen=True, slots=True)
class Issue:
    """One error of an expression. `offset` counts characters from its start; None: the error has no position."""

    offset: int | None
    message: str

    def render(self, expression: str) -> str:
        """Return the error with its line and a mark below the position, as cel-go prints it."""
        if self.offset is None:
            return f"ERROR: <input>:-1:0: {self.message}"
        if not expression:
            return f"ERROR: <input>:1:0: {self.message}"
        before = expression[: self.offset]
        line = before.count("\n")
        column = self.offset - (before.rfind("\n") + 1)
        text = expression.split("\n")[line].replace("\t", " ")
        return f"ERROR: <input>:{line + 1}:{column + 1}: {self.message}\n | {text}\n | {'.' * column}^"


class CompileError(Exception):
    """An expression that does not compile. The text is that of Kubernetes' API server."""

    def __init__(self, expression: str, issues: Iterable[Issue]) -> None:
        self.issues = sorted(issues, key=lambda issue: -1 if issue.offset is None else issue.offset)
        shown = "\n".join(issue.render(expression) for issue in self.issues[:_MOST_ISSUES])
        super().__init__(f"compilation failed: {shown}" if shown else "")


class WrongResult(CompileError):
    """A valid expression whose type is not the one that its use requires. `found` is the name of the type."""

    def __init__(self, text: str, found: str) -> None:
        super().__init__("", ())
        self.args = (text,)
        self.found = found


class ProgramError(CompileError):
    """A valid expression that cannot become a program: a conversion of a constant fails, or a constant pattern."""

    def __init__(self, problem: str) -> None:
        super().__init__("", ())
        self.args = (f"program instantiation failed: {problem}",)


class EvaluationError(Exception):
    """A failed evaluation. The text is cel-go's (`no such key: x`)."""


class CostLimitExceeded(EvaluationError):
    """One evaluation that cost more than an expression may."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class BudgetExceeded(Exception):
    """The evaluations of one request together cost more than they may."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")
