"""Evaluation of expressions in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.apiserver.cel import DYN, Budget, Environment, Type

VARIABLES: Mapping[str, Any] = {
    "x": {"a": 1, "b": {"c": "text"}, "list": [1, "two", 3.0, None], "true": True, "empty": {}},
    "items": [{"name": "a", "port": 80}, {"name": "b", "port": 443}],
}
UNTYPED: Mapping[str, Type] = {"x": DYN, "items": DYN}


def evaluate(expression: str, variables: Mapping[str, Any] = VARIABLES, types: Mapping[str, Type] | None = None) -> Any:
    """Return an expression's value; variables are untyped unless `types` are given."""
    return Environment(types or dict.fromkeys(variables, DYN)).compile(expression).evaluate(variables, Budget())


def cost(expression: str, variables: Mapping[str, Any], types: Mapping[str, Type]) -> int:
    """Return what an evaluation costs."""
    budget = Budget()
    before = budget.remaining
    Environment(types).compile(expression).evaluate(variables, budget)
    return before - budget.remaining
