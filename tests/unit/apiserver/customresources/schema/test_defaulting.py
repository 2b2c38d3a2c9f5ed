from __future__ import annotations

import copy
from typing import Any

import pytest

from bridgehead.apiserver.customresources.schema import Structural

from .objects import INTEGER, STRING, listing, mapping, struct

ONE = INTEGER | {"default": 1}
NESTED = struct(a=ONE, b=STRING) | {"default": {}}

# fields of the root, object, object with defaults (None: it has them all)
CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "left out": ({"a": ONE}, {}, {"a": 1}),
    "given": ({"a": ONE}, {"a": 0}, None),
    "null": ({"a": ONE}, {"a": None}, {"a": 1}),
    "null that is allowed": ({"a": ONE | {"nullable": True}}, {"a": None}, None),
    "allowed to be null, left out": ({"a": ONE | {"nullable": True}}, {}, {"a": 1}),
    "false is a default": ({"a": {"type": "boolean", "default": False}}, {}, {"a": False}),
    "defaults of a default": ({"n": NESTED}, {}, {"n": {"a": 1}}),
    "in an object that is there": ({"n": struct(a=ONE)}, {"n": {"b": "x"}}, {"n": {"b": "x", "a": 1}}),
    "not in one that is left out": ({"n": struct(a=ONE)}, {}, None),
    "in items": ({"n": listing(struct(a=ONE))}, {"n": [{}, {"a": 2}]}, {"n": [{"a": 1}, {"a": 2}]}),
    "items without defaults beside others": ({"n": listing(STRING) | {"default": []}}, {"n": ["x"]}, None),
    "items that have them": ({"n": listing(struct(a=ONE))}, {"n": [{"a": 2}]}, None),
    "in values": ({"n": mapping(struct(a=ONE))}, {"n": {"x": {}}}, {"n": {"x": {"a": 1}}}),
    "values that have them": ({"n": mapping(struct(a=ONE))}, {"n": {"x": {"a": 3}}}, None),
    "two values": ({"n": mapping(struct(a=ONE))}, {"n": {"x": {}, "y": {}}}, {"n": {"x": {"a": 1}, "y": {"a": 1}}}),
    "null items": ({"n": listing(STRING | {"default": "x"})}, {"n": [None, "y"]}, {"n": ["x", "y"]}),
    "null values": ({"n": mapping(STRING | {"default": "x"})}, {"n": {"a": None}}, {"n": {"a": "x"}}),
    "a value of a wrong type": ({"n": struct(a=ONE)}, {"n": "x"}, None),
    "items without defaults": ({"n": listing(STRING), "a": ONE}, {"n": ["x"], "a": 1}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_defaults(case: str) -> None:
    fields, obj, wanted = CASES[case]
    structural = Structural.parse(struct(**fields))
    before = copy.deepcopy(obj)
    result = structural.defaulted(obj)
    assert obj == before
    assert result == (before if wanted is None else wanted)
    assert (result is obj) == (wanted is None)
    structural.default(obj)
    assert obj == result


def test_defaults_are_copies() -> None:
    structural = Structural.parse(struct(a={**mapping(STRING), "default": {"x": "y"}}))
    first = structural.defaulted({})
    first["a"]["x"] = "changed"
    assert structural.defaulted({}) == {"a": {"x": "y"}}
