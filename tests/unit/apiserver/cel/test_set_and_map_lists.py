"""Lists whose schema has a list type: comparison without order, and merging by `+`."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.cel import PER_CALL_LIMIT, Budget, CostLimitExceeded, Environment, EvaluationError
from bridgehead.apiserver.cel.schema_types import type_of_schema

ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "lists": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "array", "items": {"type": "integer"}},
        },
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": ITEM,
        },
        "plain": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
        "any": {"x-kubernetes-int-or-string": True},
    },
}
A, B, A2 = {"name": "a", "n": 1}, {"name": "b", "n": 1}, {"name": "a", "n": 2}


def evaluate(expression: str, one: Any, other: Any, limit: int = PER_CALL_LIMIT) -> Any:
    self_type = type_of_schema(SCHEMA)
    assert self_type is not None
    program = Environment({"self": self_type, "oldSelf": self_type}).compile(expression)
    return program.evaluate({"self": one, "oldSelf": other}, Budget(), limit)


@pytest.mark.parametrize(
    ("name", "one", "other", "is_equal"),
    [
        ("set", ["a", "b"], ["b", "a"], True),
        ("set", ["a", "b"], ["b", "c"], False),
        ("set", ["a"], ["a", "b"], False),
        ("lists", [[1], [2]], [[2], [1]], True),
        ("lists", [[1], [2]], [[2], [3]], False),
        ("map", [A, B], [B, A], True),
        ("map", [A, B], [B, A2], False),
        ("map", [A, B], [A, {"name": "c", "n": 1}], False),
        ("plain", ["a", "b"], ["b", "a"], False),
    ],
)
def test_equality(name: str, one: Any, other: Any, is_equal: bool) -> None:
    objects = {name: one}, {name: other}
    assert evaluate(f"self.{name} == oldSelf.{name}", *objects) is is_equal
    assert evaluate(f"self.{name} != oldSelf.{name}", *objects) is not is_equal


@pytest.mark.parametrize(
    ("name", "one", "other", "merged"),
    [
        ("set", ["a", "b"], ["c", "a", "c"], ["a", "b", "c"]),
        ("lists", [[1]], [[2], [1]], [[1], [2]]),
        ("map", [A, B], [{"name": "c"}, A2], [A2, B, {"name": "c"}]),
        ("plain", ["a"], ["a"], ["a", "a"]),
    ],
)
def test_addition(name: str, one: Any, other: Any, merged: Any) -> None:
    before = [*one]
    assert evaluate(f"self.{name} + oldSelf.{name}", {name: one}, {name: other}) == merged
    assert one == before


def test_literals_have_no_list_type() -> None:
    assert evaluate("self.set == ['b', 'a']", {"set": ["a", "b"]}, {}) is True
    assert evaluate("['b', 'a'] == self.set", {"set": ["a", "b"]}, {}) is False
    assert evaluate("self.set.exists(x, x == 'b') && self.set[0] == 'a'", {"set": ["a", "b"]}, {}) is True


def test_values_of_other_types() -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate("self.set == oldSelf.set", {"set": 5}, {"set": ["a"]})
    assert evaluate("self.map + [self.any]", {"map": [A], "any": 5}, {}) == [A, 5]


def test_work_is_bounded() -> None:
    items = [[number] for number in range(4_000)]
    for operator in ("==", "+"):
        with pytest.raises(CostLimitExceeded):
            evaluate(f"self.lists {operator} oldSelf.lists", {"lists": items}, {"lists": items[::-1]}, limit=100_000)
