"""Validation of match conditions, of webhooks and policies.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_qualified_name

_MAX_CONDITIONS = 64


def validate_match_conditions(conditions: Field, validate_expression: Callable[[Field], None]) -> None:
    conditions.must_have_at_most(_MAX_CONDITIONS)
    names: set[str] = set()
    for condition in conditions.each():
        name, expression = condition.at("name"), condition.at("expression", "")
        trimmed = expression.showing(expression.value.strip())
        if trimmed.must_be_set():
            validate_expression(trimmed)
        if name.must_be_set():
            name.must_pass(check_qualified_name)
            name.must_not_repeat(names)
