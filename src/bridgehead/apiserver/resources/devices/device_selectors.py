"""Validation of the expressions that select devices. CEL is imported with the first expression.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/resource/validation`.
"""

from __future__ import annotations

from functools import lru_cache

from bridgehead.apiserver.field import Field

_MAX_EXPRESSION = 10 * 1024
# Selectors whose outcome is remembered: claims of one template have equal ones.
_REMEMBERED = 256


def validate_selector(expression: Field) -> None:
    """Add an error unless the expression compiles to a selector of limited cost."""
    if not expression.must_have_at_most_bytes(_MAX_EXPRESSION):
        return
    reason, problem = _compile(expression.value)
    match reason:
        case "Invalid":
            expression.invalid(problem)
        case "Internal":
            expression.internal(problem)
        case "Forbidden":
            expression.forbidden(problem)


@lru_cache(_REMEMBERED)
def _compile(expression: str) -> tuple[str, str]:
    """Return the reason for which an expression is refused, or "", and the problem."""
    from bridgehead.apiserver.cel import CompileError, ProgramError
    from bridgehead.apiserver.cel.device_environment import MOST_COST, compile_selector

    try:
        cost = compile_selector(expression).most_cost
    except ProgramError as error:
        return "Internal", str(error)
    except CompileError as error:
        return "Invalid", str(error)
    return ("Forbidden", "too complex, exceeds cost limit") if cost > MOST_COST else ("", "")
