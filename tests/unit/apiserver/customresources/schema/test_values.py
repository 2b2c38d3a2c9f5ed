"""Checks of values, with the texts of a Kubernetes API server."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.customresources.schema import Structural
from bridgehead.apiserver.customresources.schema.errors import MAX_ERRORS

from .objects import BOOLEAN, INTEGER, NUMBER, STRING, about, listing, mapping, struct, texts

X = "spec.x"
EITHER = {"x-kubernetes-int-or-string": True}

REFUSED: dict[str, tuple[dict[str, Any], Any, str]] = {
    "string for integer": (INTEGER, "5", 'Invalid value: "string": spec.x in body must be of type integer: "string"'),
    "list for object": (struct(), [], 'Invalid value: "array": spec.x in body must be of type object: "array"'),
    "object for list": (
        listing(STRING),
        {},
        'Invalid value: "object": spec.x in body must be of type array: "object"',
    ),
    "integer for string": (STRING, 5, 'Invalid value: "integer": spec.x in body must be of type string: "integer"'),
    "boolean for number": (NUMBER, True, 'Invalid value: "boolean": spec.x in body must be of type number: "boolean"'),
    "number for date": (
        STRING | {"format": "date"},
        5,
        'Invalid value: "int64": spec.x in body must be of type date: "int64"',
    ),
    "boolean for either": (
        EITHER,
        True,
        'Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"',
    ),
    "format": (
        STRING | {"format": "ipv4"},
        "a",
        'Invalid value: "a": spec.x in body must be of type ipv4: "a"',
    ),
    "enum": (STRING | {"enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
    "enum of numbers": (INTEGER | {"enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"'),
    "null in an enum": (
        STRING | {"enum": ["a"], "nullable": True},
        None,
        'Unsupported value: null: supported values: "a"',
    ),
    "maxLength": (STRING | {"maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
    "minLength": (
        STRING | {"minLength": 2},
        "é",
        'Invalid value: "é": spec.x in body should be at least 2 chars long',
    ),
    "pattern": (STRING | {"pattern": "^[a-z]+$"}, "A", "Invalid value: \"A\": spec.x in body should match '^[a-z]+$'"),
    "maximum": (INTEGER | {"maximum": 5}, 6, "Invalid value: 6: spec.x in body should be less than or equal to 5"),
    "maximum that is cut": (
        {"maximum": 5.5},
        6,
        "Invalid value: 6: spec.x in body should be less than or equal to 5",
    ),
    "maximum of a large number": (
        INTEGER | {"maximum": 2**53 + 1},
        2**53 + 1,
        "Invalid value: 9007199254740993: spec.x in body should be less than or equal to 9007199254740992",
    ),
    "large float": (
        NUMBER | {"maximum": 5},
        1e20,
        "Invalid value: 1e+20: spec.x in body should be less than or equal to 5",
    ),
    "number in an enum": (NUMBER | {"enum": [1]}, 1e20, 'Unsupported value: 1e+20: supported values: "1"'),
    "float for string": (STRING, 2.0, 'Invalid value: "number": spec.x in body must be of type string: "number"'),
    "maximum of a whole float": (
        NUMBER | {"maximum": 5},
        6.0,
        "Invalid value: 6: spec.x in body should be less than or equal to 5",
    ),
    "exclusiveMaximum": (
        NUMBER | {"maximum": 1.5, "exclusiveMaximum": True},
        1.5,
        "Invalid value: 1.5: spec.x in body should be less than 1.5",
    ),
    "minimum": (
        NUMBER | {"minimum": 0.5},
        0.25,
        "Invalid value: 0.25: spec.x in body should be greater than or equal to 0.5",
    ),
    "exclusiveMinimum": (
        INTEGER | {"minimum": 0, "exclusiveMinimum": True},
        0,
        "Invalid value: 0: spec.x in body should be greater than 0",
    ),
    "multipleOf": (INTEGER | {"multipleOf": 5}, 7, "Invalid value: 7: spec.x in body should be a multiple of 5"),
    "multipleOf a fraction": (
        NUMBER | {"multipleOf": 0.5},
        0.7,
        "Invalid value: 0.7: spec.x in body should be a multiple of 0.5",
    ),
    "multipleOf of nothing": (
        INTEGER | {"multipleOf": 0},
        7,
        "Invalid value: 0: factor MultipleOf declared for spec.x must be positive: 0",
    ),
    "negative multipleOf": (
        INTEGER | {"multipleOf": -5},
        10,
        "Invalid value: -5: factor MultipleOf declared for spec.x must be positive: -5",
    ),
    "minItems": (
        listing(STRING, minItems=2),
        ["a"],
        "Invalid value: 1: spec.x in body should have at least 2 items",
    ),
    "maxItems": (listing(STRING, maxItems=1), ["a", "b"], "Too many: 2: must have at most 1 item"),
    "minProperties": (
        mapping(STRING, minProperties=1),
        {},
        "Invalid value: 0: spec.x in body should have at least 1 properties",
    ),
    "maxProperties": (mapping(STRING, maxProperties=0), {"a": "b"}, "Too many: 1: must have at most 0 items"),
    "closed map": (
        {"type": "object", "additionalProperties": False},
        {"a": 1},
        'Invalid value: "a": spec.x.a in body is a forbidden property',
    ),
    "null": (STRING, None, 'Invalid value: "null": spec.x in body must be of type string: "null"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    schema, value, message = REFUSED[case]
    assert about(schema, value) == [f"{X}: {message}"]


@pytest.mark.parametrize(
    ("schema", "value", "wrong_type", "wanted"),
    [
        (INTEGER, 1.5, 'integer: "number"', "integer (default format)"),
        (INTEGER, 2**64, 'integer: "number"', "integer (default format)"),
        (INTEGER, 1e300, 'integer: "number"', "integer (default format)"),
        (INTEGER | {"format": "int32"}, 1.5, 'int32: "float64"', "integer with format int32"),
        (INTEGER | {"format": "int32"}, 2**31, "", "integer with format int32"),
        (INTEGER | {"format": "int32"}, -(2**31) - 1, "", "integer with format int32"),
        (INTEGER | {"format": "int64"}, 1.5, 'int64: "float64"', "integer with format int64"),
        (NUMBER | {"format": "float"}, 3.5e38, "", "number with format float"),
    ],
)
def test_a_number_out_of_the_range_of_its_format_is_refused(
    schema: dict[str, Any], value: float, wrong_type: str, wanted: str
) -> None:
    found = wrong_type.rpartition(" ")[2]
    errors = [f"{X}: Invalid value: {found}: spec.x in body must be of type {wrong_type}"] if wrong_type else []
    assert about(schema, value) == [
        *errors,
        f'<nil>: Invalid value: "": Checked value must be of type {wanted} in spec.x',
    ]


@pytest.mark.parametrize(
    ("schema", "value", "messages"),
    [
        (
            INTEGER | {"maximum": 5.5},
            6,
            [
                '<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in spec.x',
                f"{X}: Invalid value: 6: spec.x in body should be less than or equal to 5.5",
            ],
        ),
        (
            INTEGER | {"format": "int32", "maximum": 2**32 - 1},
            5,
            [
                '<nil>: Invalid value: "": Maximum boundary value must be of type integer with format int32 in spec.x',
            ],
        ),
        (
            INTEGER | {"minimum": -1e30},
            5,
            ['<nil>: Invalid value: "": Minimum boundary value must be of type integer (default format) in spec.x'],
        ),
        (
            INTEGER | {"multipleOf": 0.5},
            7,
            ['<nil>: Invalid value: "": MultipleOf value must be of type integer (default format) in spec.x'],
        ),
    ],
)
def test_a_limit_out_of_the_range_of_the_type_refuses_all_values(
    schema: dict[str, Any], value: float, messages: list[str]
) -> None:
    assert about(schema, value) == messages


def test_the_fields_of_an_object_with_too_many_are_validated() -> None:
    schema = struct(a=INTEGER) | {"maxProperties": 0}
    assert about(schema, {"a": "b"}) == [
        f"{X}: Too many: 1: must have at most 0 items",
        f'{X}.a: Invalid value: "string": spec.x.a in body must be of type integer: "string"',
    ]


ACCEPTED: dict[str, tuple[dict[str, Any], Any]] = {
    "whole float for integer": (INTEGER, 5.0),
    "integer for number": (NUMBER, 5),
    "least of int32": (INTEGER | {"format": "int32"}, -(2**31)),
    "whole number for int32": (INTEGER | {"format": "int32"}, 2.0),
    "largest float": (NUMBER | {"format": "float"}, 3.4028235e38),
    "no limit for a double": (NUMBER | {"format": "double"}, 1e308),
    "huge number": (NUMBER, 2**70),
    "integer or string": (EITHER, 5),
    "string or integer": (EITHER, "50%"),
    "unknown format": (STRING | {"format": "planet"}, "x"),
    "format of another type": (BOOLEAN | {"format": "date"}, True),
    "list for a formatted string": (STRING | {"format": "date"}, []),  # as in Kubernetes
    "enum across number types": (NUMBER | {"enum": [1, 2.0]}, 2),
    "enum of objects": (struct() | {"enum": [{"a": 1}]}, {"a": 1}),
    "maximum that is cut": ({"maximum": 5.5}, 5),
    "number that is cut to one in an enum": ({"enum": [2]}, 2.5),
    "multipleOf with rounding": (NUMBER | {"multipleOf": 0.1}, 0.3),
    "multipleOf a fraction": (NUMBER | {"multipleOf": 0.5}, 7.5),
    "pattern is searched": (STRING | {"pattern": "b"}, "abc"),
    "length in characters": (STRING | {"maxLength": 2}, "éé"),
    "nullable": (STRING | {"nullable": True}, None),
    "no type": ({"x-kubernetes-preserve-unknown-fields": True}, {"a": [1]}),
    "any value of a map": ({"type": "object", "additionalProperties": True}, {"a": 1}),
    "list without items": ({"type": "array"}, [1, "a"]),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case: str) -> None:
    schema, value = ACCEPTED[case]
    assert about(schema, value) == []


def test_true_is_no_number() -> None:
    assert about(INTEGER | {"enum": [1]}, True) == [
        'spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean"',
        'spec.x: Unsupported value: true: supported values: "1"',
    ]
    assert about({"enum": [True]}, 1) == ['spec.x: Unsupported value: 1: supported values: "true"']


def test_paths() -> None:
    schema = struct(
        ("spec",),
        spec=struct(("name",), name=STRING, ports=listing(struct(("port",), port=INTEGER)), limits=mapping(INTEGER)),
    )
    assert texts(schema, {}) == ["spec: Required value"]
    assert texts(schema, {"spec": {"ports": [{"port": 1}, {"port": "a"}, {}], "limits": {"a.b": "c"}}}) == [
        'spec.ports[1].port: Invalid value: "string": spec.ports[1].port in body must be of type integer: "string"',
        "spec.ports[2].port: Required value",
        'spec.limits.a.b: Invalid value: "string": spec.limits.a.b in body must be of type integer: "string"',
        "spec.name: Required value",
    ]


def test_reasons() -> None:
    schema = struct(a=STRING, b=STRING | {"maxLength": 1}, c=listing(STRING, maxItems=0), d=STRING | {"pattern": "x"})
    errors = Structural.parse(schema).validate({"a": 1, "b": "bb", "c": ["c"], "d": "d"})
    assert [error.reason for error in errors] == [
        "FieldValueTypeInvalid",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueInvalid",
    ]


SMALL, BIG, EVEN = {"maximum": 5}, {"minimum": 3}, {"multipleOf": 2}
LE5 = "spec.x: Invalid value: 9: spec.x in body should be less than or equal to 5"

CHOICES: dict[str, tuple[dict[str, Any], Any, list[str]]] = {
    "anyOf, one passes": ({"anyOf": [SMALL, EVEN]}, 3, []),
    "anyOf, none passes": (
        {"anyOf": [SMALL, EVEN]},
        9,
        ['<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)', LE5],
    ),
    "oneOf, one passes": ({"oneOf": [SMALL, BIG]}, 2, []),
    "oneOf, two pass": (
        {"oneOf": [SMALL, BIG]},
        4,
        [
            '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives"
        ],
    ),
    "oneOf, none passes": (
        {"oneOf": [SMALL, EVEN]},
        9,
        ['<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid', LE5],
    ),
    "oneOf, the second passes": ({"oneOf": [SMALL, BIG]}, 9, []),
    "allOf, all pass": ({"allOf": [SMALL, BIG]}, 4, []),
    "allOf, one fails": (
        {"allOf": [SMALL, BIG]},
        9,
        [LE5, '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)'],
    ),
    "allOf, none passes": (
        {"allOf": [SMALL]},
        9,
        [LE5, '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated'],
    ),
    "not": ({"not": SMALL}, 4, ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)']),
    "not, passes": ({"not": SMALL}, 9, []),
    "the same error twice": ({"maximum": 5, "not": {"minimum": 100}, "allOf": [SMALL]}, 9, []),
}


@pytest.mark.parametrize("case", CHOICES)
def test_choices(case: str) -> None:
    schema, value, errors = CHOICES[case]
    found = about(INTEGER | schema, value)
    if case == "the same error twice":
        assert found.count(LE5) == 1
    else:
        assert found == errors


def test_the_errors_of_the_alternative_that_fits_best_are_shown() -> None:
    by_name = struct(("name", "port"), name={}, port={"maximum": 10})
    schema = struct(spec=struct(name=STRING, port=INTEGER, url=STRING) | {"oneOf": [struct(("url",), url={}), by_name]})
    del by_name["type"], schema["properties"]["spec"]["oneOf"][0]["type"]
    assert texts(schema, {"spec": {"name": "a", "port": 11}}) == [
        '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid',
        "spec.port: Invalid value: 11: spec.port in body should be less than or equal to 10",
    ]


def test_errors_are_bounded() -> None:
    schema = struct(a=listing(INTEGER), b=mapping(INTEGER))
    assert len(Structural.parse(schema).validate({"a": ["x"] * 10**5})) <= MAX_ERRORS + 1
    assert len(Structural.parse(schema).validate({"b": {str(n): "x" for n in range(10**4)}})) <= MAX_ERRORS + 1


def test_an_expensive_pattern_takes_no_time() -> None:
    assert about(STRING | {"pattern": "^(a+)+$"}, "a" * 50_000 + "b") != []
