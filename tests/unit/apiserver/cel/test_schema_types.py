"""Types from schemas: which values expressions see, under which names."""

import pytest

from bridgehead.apiserver.cel import Budget, CompileError, Environment, EvaluationError
from bridgehead.apiserver.cel.schema_types import escape, type_of_schema

SCHEMA = {
    "type": "object",
    "properties": {
        "a-b.c/d": {"type": "integer"},
        "namespace": {"type": "string"},
        "__x__": {"type": "string"},
        "$ref": {"type": "string"},
        "ratio": {"type": "number"},
        "ratios": {"type": "array", "items": {"type": "number"}},
        "limits": {"type": "object", "additionalProperties": {"type": "number"}},
        "data": {"type": "string", "format": "byte"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "wait": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "none": {"x-kubernetes-preserve-unknown-fields": True},
        "template": {"type": "object", "x-kubernetes-embedded-resource": True},
    },
}
VALUE = {
    "a-b.c/d": 1,
    "namespace": "n",
    "__x__": "u",
    "ratio": 1,
    "ratios": [1, 0.5],
    "limits": {"x": 3, "y": None},
    "data": "aGk=",
    "day": "2020-01-02",
    "at": "2020-01-02T03:04:05.5Z",
    "times": ["2020-01-02T03:04:05Z"],
    "wait": "90s",
    "port": "http",
    "free": {"any": 1},
    "template": {"kind": "Pod", "metadata": {"name": "p"}},
}


def environment(*, is_root: bool = False) -> Environment:
    self_type = type_of_schema(SCHEMA, is_root=is_root)
    assert self_type is not None
    return Environment({"self": self_type})


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ("__x__", "__underscores__x__underscores__"),
        ("namespace", "__namespace__"),
        ("$ref", None),
        ("9a", None),
        ("", None),
    ],
)
def test_names_are_escaped(name, escaped):
    assert escape(name) == escaped


TRUE = [
    "self.a__dash__b__dot__c__slash__d == 1 && has(self.a__dash__b__dot__c__slash__d)",
    "self.__namespace__ == 'n' && self.__underscores__x__underscores__ == 'u'",
    "self.?__namespace__.value() == 'n'",
    "self.ratio / 2.0 == 0.5 && type(self.ratio) == double",
    "self.ratios.sum() == 1.5 && type(self.ratios[0]) == double",
    "self.limits.x == 3.0",
    "self.limits.all(k, v, dyn(v) == null || type(v) == double)",
    "self.data == b'hi'",
    "self.day == timestamp('2020-01-02T00:00:00Z') && self.at > self.day",
    "self.times.all(t, t < self.at) && [self.at].exists(t, t.getFullYear() == 2020)",
    "{'k': self.at}.k == self.at",
    "self.wait == duration('1m30s')",
    "type(self.port) == string ? self.port == 'http' : self.port == 80",
    "self.template.metadata.name == 'p' && self.template.kind == 'Pod'",
    "self.ratios == [1.0, 0.5]",
]


@pytest.mark.parametrize("expression", TRUE)
def test_values_have_the_types_of_their_schema(expression):
    assert environment().compile(expression).evaluate({"self": VALUE}, Budget()) is True


@pytest.mark.parametrize("field", ["free.any", "none", "nothing", "template.spec", "template.metadata.labels"])
def test_fields_without_schema_are_undefined(field):
    with pytest.raises(CompileError, match=f"undefined field '{field.rpartition('.')[2]}'"):
        environment().compile(f"self.{field}")


def test_a_root_has_its_name():
    program = environment(is_root=True).compile("self.metadata.name + self.kind")
    assert program.evaluate({"self": {"kind": "K", "metadata": {"name": "n"}}}, Budget()) == "nK"
    with pytest.raises(CompileError):
        environment().compile("self.kind")


@pytest.mark.parametrize(
    ("value", "expression"),
    [
        ({"data": "?"}, "self.data == b''"),
        ({"at": "now"}, "self.at == self.at"),
        ({"wait": "1"}, "self.wait == self.wait"),
    ],
)
def test_values_that_do_not_fit_are_errors(value, expression):
    with pytest.raises(EvaluationError):
        environment().compile(expression).evaluate({"self": value}, Budget())


def test_schemas_without_values_for_expressions_have_no_type():
    assert type_of_schema({"x-kubernetes-preserve-unknown-fields": True}) is None
    assert type_of_schema({"type": "array", "items": {}}) is None
    assert type_of_schema({"type": "object", "additionalProperties": {}}) is None
