"""CEL rules: declared ones, and their evaluation for objects."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from bridgehead.apiserver.customresources.schema import Structural
from bridgehead.apiserver.customresources.schema.errors import MAX_ERRORS
from bridgehead.apiserver.customresources.schema.rule_validation import CostTotal
from bridgehead.apiserver.customresources.schema.rules import Validator
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

from .objects import INTEGER, PRESERVED, STRING, keyed, listing, mapping, schema_texts, struct, texts


def ruled(schema: JsonObject, rule: str, **more: Any) -> JsonObject:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


def update(schema: JsonObject, old: JsonObject, new: JsonObject) -> tuple[list[str], list[str]]:
    """Return the errors and the warnings of an update."""
    found = Structural.parse(schema).validate(new, old)
    texts = {kind: [f"{one.field}: {one.message}" for one in found if one.is_warning == kind] for kind in (False, True)}
    return texts[False], texts[True]


SIZES = struct(least=INTEGER, most=INTEGER)

# schema, object, errors
EVALUATED: dict[str, tuple[JsonObject, JsonObject, list[str]]] = {
    "holds": (struct(spec=ruled(SIZES, "self.least <= self.most")), {"spec": {"least": 1, "most": 2}}, []),
    "fails": (
        struct(spec=ruled(SIZES, "self.least <= self.most")),
        {"spec": {"least": 3, "most": 2}},
        ["spec: Invalid value: failed rule: self.least <= self.most"],
    ),
    "message": (
        struct(spec=ruled(SIZES, "self.least <= self.most", message=" too much ")),
        {"spec": {"least": 3, "most": 2}},
        ["spec: Invalid value: too much"],
    ),
    "scalars are shown": (
        struct(spec=struct(name=ruled(STRING, "self.startsWith('a')"))),
        {"spec": {"name": "b"}},
        ["spec.name: Invalid value: \"b\": failed rule: self.startsWith('a')"],
    ),
    "message of an expression": (
        struct(spec=ruled(SIZES, "self.least <= self.most", messageExpression="'above ' + string(self.most)")),
        {"spec": {"least": 3, "most": 2}},
        ["spec: Invalid value: above 2"],
    ),
    "an expression that fails": (
        struct(spec=ruled(SIZES, "false", message="m", messageExpression="string(self.least / 0)")),
        {"spec": {"least": 3}},
        ["spec: Invalid value: m"],
    ),
    "an expression without a text": (
        struct(spec=ruled(SIZES, "false", message="m", messageExpression="' '")),
        {"spec": {}},
        ["spec: Invalid value: m"],
    ),
    "an expression with two lines": (
        struct(spec=ruled(SIZES, "false", message="m", messageExpression="'a\\nb'")),
        {"spec": {}},
        ["spec: Invalid value: m"],
    ),
    "an expression with much text": (
        struct(spec=ruled(struct(a=STRING), "false", message="m", messageExpression="self.a")),
        {"spec": {"a": "x" * 5121}},
        ["spec: Invalid value: m"],
    ),
    "reason and path": (
        struct(spec=ruled(SIZES, "false", reason="FieldValueRequired", message="m", fieldPath=".least")),
        {"spec": {}},
        ["spec.least: Required value: m"],
    ),
    "forbidden": (
        struct(spec=ruled(SIZES, "false", reason="FieldValueForbidden", message="m")),
        {"spec": {}},
        ["spec: Forbidden: m"],
    ),
    "duplicate": (
        struct(
            spec=struct(a=ruled(STRING, "false", reason="FieldValueDuplicate"))
            | {"x-kubernetes-validations": [{"rule": "false", "reason": "FieldValueDuplicate"}]}
        ),
        {"spec": {"a": "x"}},
        ["spec: Duplicate value", 'spec.a: Duplicate value: "x"'],
    ),
    "at the root": (
        ruled(struct(spec=SIZES), "self.metadata.name.startsWith('x') && self.kind == 'K'", fieldPath=".spec"),
        {"kind": "K", "metadata": {"name": "a"}},
        ["spec: Invalid value: failed rule: self.metadata.name.startsWith('x') && self.kind == 'K'"],
    ),
    "at the root, without a path": (
        ruled(struct(spec=SIZES), "has(self.spec)"),
        {"metadata": {"name": "a"}},
        ["<nil>: Invalid value: failed rule: has(self.spec)"],
    ),
    "error": (
        struct(spec=ruled(SIZES, "self.least / 0 == 1")),
        {"spec": {"least": 3}},
        ['spec: Invalid value: "object": division by zero evaluating rule: self.least / 0 == 1'],
    ),
    "a field that is left out": (
        struct(spec=ruled(SIZES, "self.least == 1", message="m")),
        {"spec": {}},
        ['spec: Invalid value: "object": no such key: least evaluating rule: m'],
    ),
    "operators of other types": (
        struct(spec=struct(a=ruled({"x-kubernetes-int-or-string": True}, "self < 5"))),
        {"spec": {"a": "x"}},
        [
            "spec.a: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, "
            "function or macro signature for rule: self < 5"
        ],
    ),
    "in lists and maps": (
        struct(a=listing(ruled(INTEGER, "self > 0")), m=mapping(ruled(INTEGER, "self > 0"))),
        {"a": [1, 0], "m": {"x": 0}},
        [
            "a[1]: Invalid value: 0: failed rule: self > 0",
            "m[x]: Invalid value: 0: failed rule: self > 0",
        ],
    ),
    "null": (struct(a=ruled(STRING | {"nullable": True}, "false")), {"a": None}, []),
    "null fields are absent": (
        struct(
            spec=ruled(
                struct(
                    n=STRING | {"nullable": True},
                    o=struct(n=INTEGER) | {"nullable": True},
                    m=mapping(STRING | {"nullable": True}),
                ),
                "!has(self.n) && !has(self.o) && self.?n.orValue('x') == 'x' && !self.?o.?n.hasValue()",
            )
        ),
        {"spec": {"n": None, "o": None}},
        [],
    ),
    "null entries of maps are present": (
        struct(spec=ruled(struct(m=mapping(STRING | {"nullable": True})), "has(self.m.k)")),
        {"spec": {"m": {"k": None}}},
        [],
    ),
    "a field that is null": (
        struct(spec=ruled(struct(n=STRING | {"nullable": True}), "self.n == 'x'", message="m")),
        {"spec": {"n": None}},
        ['spec: Invalid value: "object": no such key: n evaluating rule: m'],
    ),
    "a field of a field that is null": (
        struct(spec=ruled(struct(o=struct(n=INTEGER) | {"nullable": True}), "self.o.n == 1", message="m")),
        {"spec": {"o": None}},
        ['spec: Invalid value: "object": no such key: o evaluating rule: m'],
    ),
    "formats": (
        struct(
            spec=ruled(
                struct(
                    d=STRING | {"format": "duration"},
                    t=STRING | {"format": "date-time"},
                    b=STRING | {"format": "byte"},
                ),
                "self.d > duration('1h') && self.t < timestamp('2030-01-01T00:00:00Z') && size(self.b) == 1",
            ),
            d=ruled(STRING | {"format": "duration"}, "self >= duration('1h')"),
        ),
        {"spec": {"d": "2h", "t": "2020-01-01T00:00:00Z", "b": "YQ=="}, "d": "1m"},
        ["d: Invalid value: \"1m\": failed rule: self >= duration('1h')"],
    ),
    "names that are no identifiers": (
        struct(spec=ruled(struct(**{"a-b": INTEGER, "namespace": INTEGER}), "self.a__dash__b > self.__namespace__")),
        {"spec": {"a-b": 1, "namespace": 2}},
        ["spec: Invalid value: failed rule: self.a__dash__b > self.__namespace__"],
    ),
    "embedded objects": (
        struct(pod=ruled(PRESERVED | {"x-kubernetes-embedded-resource": True}, "self.metadata.name == 'a'")),
        {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}},
        ["pod: Invalid value: failed rule: self.metadata.name == 'a'"],
    ),
    "values that expressions cannot use": (
        struct(a=ruled({"x-kubernetes-preserve-unknown-fields": True}, "false")),
        {"a": 1},
        [],
    ),
    "an empty rule": (struct(a=ruled(STRING, " ")), {"a": "x"}, []),
    "a rule that does not compile": (
        struct(a=ruled(STRING, "self.b")),
        {"a": "x"},
        ['a: Invalid value: "string": rule compile error: compilation failed: ERROR: <input>:1:5: '],
    ),
}


@pytest.mark.parametrize("case", EVALUATED)
def test_rules(case: str) -> None:
    schema, obj, wanted = EVALUATED[case]
    found = texts(schema, obj)
    assert len(found) == len(wanted), found
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True)), found
    assert "rule compile error" in str(wanted) or found == wanted


NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)


def test_rules_wait_for_a_valid_object() -> None:
    schema = struct(spec=ruled(struct(("a",), a=INTEGER | {"minimum": 1}), "false"))
    assert texts(schema, {"spec": {}}) == ["spec.a: Required value", NOT_CHECKED]
    assert len(texts(schema, {"spec": {"a": 0}})) == 2  # a value that is merely too small does not disturb a rule


IMMUTABLE = ruled(STRING, "self == oldSelf", message="immutable")


def test_transition_rules_need_an_old_value() -> None:
    schema = struct(a=IMMUTABLE, m=mapping(IMMUTABLE), ports=keyed(struct(name=STRING, port=IMMUTABLE), "name"))
    assert texts(schema, {"a": "x"}) == []
    assert update(schema, {"a": "x"}, {"a": "y"})[0] == ['a: Invalid value: "y": immutable']
    assert update(schema, {}, {"a": "y"})[0] == []
    assert update(schema, {"a": None}, {"a": "y"})[0] == []
    assert update(schema, {"m": {"k": "x"}}, {"m": {"k": "y", "l": "z"}})[0] == ['m[k]: Invalid value: "y": immutable']
    old, new = [{"name": "a", "port": "1"}], [{"name": "b", "port": "2"}, {"name": "a", "port": "3"}]
    assert update(schema, {"ports": old}, {"ports": new})[0] == ['ports[1].port: Invalid value: "3": immutable']


def test_optional_old_values() -> None:
    rule = "!oldSelf.hasValue() || oldSelf.value() == self"
    schema = struct(a=ruled(STRING, rule, optionalOldSelf=True, message="immutable"))
    assert texts(schema, {"a": "x"}) == []
    assert update(schema, {"a": "x"}, {"a": "y"})[0] == ['a: Invalid value: "y": immutable']
    schema = struct(
        a=ruled(STRING | {"format": "duration"}, "oldSelf.orValue(duration('1h')) == self", optionalOldSelf=True)
    )
    assert texts(schema, {"a": "1h"}) == []
    assert update(schema, {"a": "2h"}, {"a": "2h"})[0] == []
    assert len(update(schema, {"a": "2h"}, {"a": "1h"})[0]) == 1


def test_rules_of_what_does_not_change_become_warnings() -> None:
    schema = struct(a=ruled(STRING, "self == 'good'"), b=STRING, c=listing(ruled(STRING, "self == 'good'")))
    wanted = "a: Invalid value: \"bad\": failed rule: self == 'good'"
    assert update(schema, {"a": "bad"}, {"a": "bad", "b": "new"}) == ([], [wanted])
    assert update(schema, {"a": "worse"}, {"a": "bad"}) == ([wanted], [])
    errors, warnings = update(schema, {"c": ["bad"]}, {"c": ["bad"], "b": "new"})
    assert (errors, len(warnings)) == ([], 1)
    errors, warnings = update(schema, {"c": ["bad"]}, {"c": ["bad", "good"]})
    assert (len(errors), warnings) == (1, [])
    (transition,) = update(struct(a=ruled(STRING, "self != oldSelf")), {"a": "x"}, {"a": "x"})[0]
    assert transition.startswith("a: Invalid value")


def test_the_kind_has_no_old_value() -> None:
    schema = struct(kind=ruled(STRING, "self == 'good'"), b=STRING)
    assert len(update(schema, {"kind": "bad"}, {"kind": "bad", "b": "new"})[0]) == 1


def test_a_status_is_checked_by_rules() -> None:
    structural = Structural.parse(ruled(struct(spec=SIZES, status=struct(n=ruled(INTEGER, "self > 0"))), "true"))
    (error,) = structural.validate_status({"status": {"n": 0}}, {})
    assert error.field == "status.n"


def test_costs_of_an_object_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{Validator.__module__}.REQUEST_BUDGET", 1_200_000)
    loop = struct(a=listing(ruled(listing(INTEGER), "self.all(x, self.all(y, x + y >= 0))")))
    (error,) = texts(loop, {"a": [[1] * 2000]})
    assert error == (
        "a[0]: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation "
        "rules "
        "will be run due to call cost exceeds limit for rule: self.all(x, self.all(y, x + y >= 0))"
    )
    (error,) = texts(loop, {"a": [[1] * 100] * 40})
    assert error.endswith(
        'Invalid value: "array": validation failed due to running out of cost budget, no further validation rules '
        "will be "
        "run"
    )


def test_costs_of_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{Validator.__module__}.REQUEST_BUDGET", 1_200_000)
    message = "self.map(x, string(self.all(y, x + y >= 0))).join(',')"
    schema = struct(a=listing(ruled(listing(INTEGER), "false", messageExpression=message)))
    (error,) = texts(schema, {"a": [[1] * 2000]})
    assert "due to call cost exceeds limit for messageExpression: " in error
    errors = texts(schema, {"a": [[1] * 100] * 40})
    assert "messageExpression evaluation failed due to running out of cost budget" in errors[-1]


RULE = "s.properties[x].x-kubernetes-validations[0]"

DECLARED: dict[str, tuple[JsonObject, list[str]]] = {
    "fine": (ruled(SIZES, "self.least < self.most", message="m", fieldPath=".least"), []),
    "no rule": (ruled(STRING, " "), [".rule: Required value: rule is not specified"]),
    "empty message": (
        ruled(STRING, "true", message=" "),
        ['.message: Invalid value: " ": must be non-empty if specified'],
    ),
    "message of two lines": (
        ruled(STRING, "true", message="a\nb"),
        ['.message: Invalid value: "a\\nb": message must not contain line breaks'],
    ),
    "rule of two lines": (
        ruled(STRING, "true\n&& true"),
        [".message: Required value: message must be specified if rule contains line breaks"],
    ),
    "empty messageExpression": (
        ruled(STRING, "true", messageExpression=" "),
        [".messageExpression: Required value: messageExpression must be non-empty if specified"],
    ),
    "reason": (
        ruled(STRING, "true", reason="Bad"),
        [
            '.reason: Unsupported value: "Bad": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
            '"FieldValueInvalid", "FieldValueRequired"'
        ],
    ),
    "field path": (
        ruled(SIZES, "true", fieldPath=".none"),
        ['.fieldPath: Invalid value: ".none": must be a valid path'],
    ),
    "empty field path": (
        ruled(SIZES, "true", fieldPath=" "),
        [
            '.fieldPath: Invalid value: " ": must be non-empty if specified',
            '.fieldPath: Invalid value: " ": must be a valid path',
        ],
    ),
    "field path of two lines": (
        ruled(SIZES, "true", fieldPath=".a\n"),
        [
            '.fieldPath: Invalid value: ".a\\n": fieldPath must not contain line breaks',
            '.fieldPath: Invalid value: ".a\\n": must be a valid path',
        ],
    ),
    "unknown field": (
        ruled(SIZES, "self.none"),
        [
            ".rule: Invalid value: "
            '{"Rule":"self.none","Message":"","MessageExpression":"","Reason":null,"FieldPath":"",'
            "\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: undefined field 'none'"
        ],
    ),
    "no boolean": (
        ruled(SIZES, "self.least"),
        [
            '.rule: Invalid value: {"Rule":"self.least","Message":"","MessageExpression":"","Reason":null,'
            '"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool'
        ],
    ),
    "message of no text": (
        ruled(SIZES, "true", messageExpression="1"),
        [
            '.messageExpression: Invalid value: {"Rule":"true","Message":"","MessageExpression":"1","Reason":null,'
            '"FieldPath":"","OptionalOldSelf":null}: messageExpression must evaluate to a string'
        ],
    ),
    "message that does not compile": (
        ruled(SIZES, "true", messageExpression="x"),
        [
            '.messageExpression: Invalid value: {"Rule":"true","Message":"","MessageExpression":"x","Reason":null,'
            '"FieldPath":"","OptionalOldSelf":null}: messageExpression compilation failed: ERROR: '
        ],
    ),
    "optional old value": (ruled(STRING, "oldSelf.hasValue()", optionalOldSelf=True), []),
    "optional old value that is not used": (
        ruled(STRING, "true", optionalOldSelf=True),
        [".optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"],
    ),
    "costs": (
        ruled(listing(STRING), "self.all(x, x.matches('a.*b'))"),
        [
            ".rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the "
            "rule, "
        ],
    ),
    "costs of a message": (
        ruled(listing(STRING), "true", messageExpression="self.filter(x, x.matches('a.*b')).join(',')"),
        [".messageExpression: Forbidden: estimated messageExpression cost exceeds budget by factor of more than 100x "],
    ),
    "bounded costs": (ruled(listing(STRING | {"maxLength": 10}, maxItems=10), "self.all(x, x.matches('a.*b'))"), []),
}


@pytest.mark.parametrize("case", DECLARED)
def test_declared_rules(case: str) -> None:
    schema, wanted = DECLARED[case]
    found = [text for text in schema_texts(struct(x=schema)) if "estimated rule cost total" not in text]
    assert len(found) == len(wanted), found
    assert all(text.startswith(RULE + start) for text, start in zip(found, wanted, strict=True)), found


def test_old_values_of_items_need_keys() -> None:
    text = IMMUTABLE | {"maxLength": 10}
    item = struct(("n",), n=STRING, v=text)
    schema = struct(
        a=listing(text, maxItems=9), m=mapping(text, maxProperties=9), k={**keyed(item, "n"), "maxItems": 9}
    )
    assert schema_texts(schema) == [
        's.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be '
        "used "
        "on the uncorrelatable portion of the schema within s.properties[a]"
    ]


def exceeded(schema: JsonObject) -> list[str]:
    """Return the paths of rules that cost too much."""
    return [text.partition(": ")[0] for text in schema_texts(schema) if "estimated rule cost exceeds" in text]


def test_costs_multiply_by_the_size_of_lists_and_maps() -> None:
    text = ruled(STRING | {"maxLength": 1000}, "self.matches('^[a-z]+$')")
    limited = {"maxItems": 10, "maxProperties": 10}
    assert exceeded(struct(a=listing(text) | limited, m=mapping(text) | limited)) == []
    assert exceeded(struct(a=listing(listing(text) | limited) | limited)) == []
    rule = "x-kubernetes-validations[0].rule"
    assert exceeded(struct(a=listing(text), m=mapping(text))) == [
        f"s.properties[a].items.{rule}",
        f"s.properties[m].additionalProperties.{rule}",
    ]
    assert exceeded(struct(a=listing(listing(text) | limited))) == [f"s.properties[a].items.items.{rule}"]


def test_costs_of_a_whole_schema_are_bounded() -> None:
    costly = ruled(listing(STRING | {"maxLength": 10_000}, maxItems=1000), "self.all(x, x.matches('^[a-z]+$'))")
    schema = struct(**{f"field{number}": costly for number in range(100)})
    errors = schema_texts(schema)
    assert exceeded(schema) == []
    assert len(errors) == 5
    assert all("contributed to estimated rule cost total exceeding cost limit" in error for error in errors[:4])
    assert errors[4].startswith(
        "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget "
        "by "
    )


@pytest.mark.parametrize(
    ("cost", "factor"), [(12_345_678, "1.234568x"), (15_500_000, "1.6x"), (2 * 10**9, "more than 100x")]
)
def test_factors(cost: int, factor: str) -> None:
    total, schema = CostTotal(), Field({}, "s")
    total.add(schema.at("x"), cost * 10)
    total.validate(schema)
    assert f" by factor of {factor} (try" in schema.errors[-1].message


def test_rules_are_not_compiled_for_a_wrong_schema() -> None:
    schema = struct(x=ruled(SIZES, "self.none"), y={})
    assert schema_texts(schema) == [
        "s.properties[y].type: Required value: must not be empty for specified object fields"
    ]


def test_defaults_fulfil_rules() -> None:
    assert schema_texts(struct(x=ruled(INTEGER | {"default": 1}, "self > 0"))) == []
    assert schema_texts(struct(x=ruled(INTEGER | {"default": 0}, "self > 0"))) == [
        "s.properties[x].default: Invalid value: 0: failed rule: self > 0"
    ]


def test_the_engine_is_loaded_with_the_first_rule() -> None:
    code = (
        "import sys; from bridgehead.apiserver.customresources.schema import Structural;"
        "Structural.parse({'type': 'object'}).validate({});"
        "sys.exit(any(name.startswith('bridgehead.apiserver.cel') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_errors_of_rules_are_bounded_and_parts_compared_once() -> None:
    schema = struct(a=listing(ruled(INTEGER, "self < 0")), b=STRING)
    many = {"a": [1] * 100_000}
    assert len(texts(schema, many)) == MAX_ERRORS + 1
    errors, warnings = update(schema, many, {**many, "b": "x"})
    assert (errors, len(warnings)) == ([], MAX_ERRORS + 1)
