"""Validation of the expressions that select devices. CEL is imported with the first expression.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/resource/validation`.
"""

from __future__ import annotations

from functools import lru_cache

from bridgehead.apiserver.resource import FieldError
from bridgehead.apiserver.resources.shared import field

_MAX_EXPRESSION = 10 * 1024
# Selectors whose outcome is remembered: claims of one template have equal ones.
_REMEMBERED = 256


def validate_selector(path: str, expression: str) -> list[FieldError]:
    """Return an error unless the expression compiles to a selector of limited cost."""
    if len(expression.encode()) > _MAX_EXPRESSION:
        return [field.too_long(path, _MAX_EXPRESSION)]
    problem, is_too_expensive = _compile(expression)
    if problem:
        return [field.invalid(path, expression, problem)]
    return [field.forbidden(path, "too complex, exceeds cost limit")] if is_too_expensive else []


@lru_cache(_REMEMBERED)
def _compile(expression: str) -> tuple[str, bool]:
    """Return why an expression does not compile, or "", and whether it may cost too much."""
    from bridgehead.apiserver.cel import CompileError
    from bridgehead.apiserver.cel.devices import MOST_COST, compile_selector

    try:
        return "", compile_selector(expression).most_cost > MOST_COST
    except CompileError as error:
        return str(error), False
