"""Costs: what evaluations cost, what is estimated, and that no expression takes longer or more memory than it may."""

import pytest

from bridgehead.apiserver.cel import (
    BOOL,
    DYN,
    Budget,
    BudgetExceeded,
    CostLimitExceeded,
    Environment,
)
from bridgehead.apiserver.cel.schema_types import type_of_schema
from bridgehead.apiserver.cel.types import INT, STRING, UNBOUNDED, Type, list_of, map_of

from .evaluation import cost

TEXT = {"type": "string", "maxLength": 5}
SCHEMA = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "free": {"type": "string"},
        "list": {"type": "array", "maxItems": 10, "items": {"type": "integer"}},
        "texts": {"type": "array", "maxItems": 10, "items": TEXT},
        "nested": {"type": "array", "maxItems": 10, "items": {"type": "array", "maxItems": 10, "items": TEXT}},
        "map": {"type": "object", "maxProperties": 4, "additionalProperties": TEXT},
        "objects": {
            "type": "array",
            "maxItems": 3,
            "items": {"type": "object", "properties": {"key": TEXT}},
        },
        "any": {"type": "array", "items": {"type": "integer"}},
        "mode": {"type": "string", "enum": ["a", "longest"]},
        "number": {"x-kubernetes-int-or-string": True, "maxLength": 3},
    },
}

# The cases of cel-go's `runtimecost_test.go`, and some of Kubernetes' libraries.
ACTUAL: list[tuple[str, int]] = [
    ("'a'", 0),
    ("t", 1),
    ("m.a", 2),
    ("m['a']", 2),
    ("l[0]", 2),
    ("[t]", 11),
    ("{'a': t}", 31),
    ("{'a': [1, 2]}.a[0]", 1 + 1),
    ("i + int(string(1))", 1 + 1),
    ("l.all(x, true)", 1 + 3 * 3 + 1),
    ("l.exists(x, false)", 1 + 3 * 4 + 1),
    ("t ? 1 : 2", 1),
    ("t && t || t", 3 - 1),
    ("i + i", 3),
    ("s + s", 1 + 1 + 2),
    ("s == s", 3),
    ("s.startsWith(s)", 3),
    ("s.contains(s)", 2 + 1),
    ("s.matches('[a-z]{1,3}')", 1 + 2 * 3),
    ("i in l", 1 + 1 + 3),
    ("size(l)", 2),
    ("has(m.a)", 1),
    ("l.map(x, x)", 1 + 3 * 13 + 1),
    ("l.filter(x, x == 1)", 1 + 3 * (1 + 2) + 12 + 1),
    ("l.sum()", 1 + 3),
    ("['abc', 'def'].join('-')", 2),
    ("s.lowerAscii()", 2),
]  # fmt: skip
TYPES = {"t": BOOL, "i": INT, "s": STRING, "l": list_of(INT), "m": map_of(STRING, INT)}
VALUES = {"t": True, "i": 2, "s": "abcdefghij", "l": [1, 2, 3], "m": {"a": 1}}


@pytest.mark.parametrize(("expression", "expected"), ACTUAL)
def test_actual_costs(expression, expected):
    assert cost(expression, VALUES, TYPES) == expected


# Kubernetes multiplies maxLength by 4: a character may have four bytes.
ESTIMATES: list[tuple[str, int]] = [
    ("self.text == 'abcd'", 2 + 1),
    ("self.text == self.free", 4 + 2),
    ("self.list.all(x, x > 0)", 2 + 10 * (3 + 2) + 1),
    ("self.texts.exists(x, x == self.text)", 2 + 10 * (4 + 1 + 2 + 2) + 1),
    ("self.texts.map(x, x + x).all(y, y == 'abc')", (2 + 10 + 10 * (12 + 2 + 4) + 1) + 10 * (3 + 1) + 1),
    ("self.nested.all(l, l.all(t, t.size() > 1))", 2 + 10 * (3 + 1 + 10 * (3 + 3) + 1) + 1),
    ("self.map.all(k, self.map[k] == 'x')", 2 + 4 * (3 + 2 + 1 + 1 + 1) + 1),
    ("self.objects.all(o, o.key.startsWith('abc'))", 2 + 3 * (3 + 2 + 1) + 1),
    ("self.text.matches('^a+$')", 2 + 3 * 1),
    ("self.text.replace('a', 'bbbb').size() > 1", 2 + 4 + 1 + 1),
    ("self.texts.join(',').contains('a')", 2 + 21 + 21 * 1),
    ("self.text in self.texts", 2 + 2 + 10),
    ("self.list.sum() > 1", 2 + 10 + 1),
    ("self.texts.isSorted()", 2 + 10 * (1 + 2)),
    ("self.list == self.list && true", 4 + 1),
    ("(true ? self.text : 'a') == 'abc'", 2 + 1),
    ("self.mode == self.free", 4 + 1),
    ("self.number == 1", 2 + 1),
    ("self.list.slice(1, 3).size() == 2", 2 + (2 + 11) + 1 + 1),
    ("self.list.slice(0, self.number).size() == 2", 2 + 2 + (10 + 11) + 1 + 1),
    ("lists.range(5).size() == 5", (5 + 11) + 1 + 1),
    ("self.list.reverse() == self.list", 2 + (10 + 11) + 2 + 1),
    ("self.nested.flatten().size() == 2", 2 + (10 + 11) + 1 + 1),
    ("self.list.sort().size() == 2", 2 + (2 * 100 + 11) + 1 + 1),
    ("self.texts.distinct().size() == 2", 2 + (210 + 11) + 1 + 1),
    ("self.list.sortBy(x, -x).size() == 2", 2 + 10 + 2 + (10 + 10 * (1 + 11 + 1 + 1) + 1) + (2 * 100 + 11) + 1 + 1),
    ("has(self.text) && self.?text.orValue('') == ''", 1 + 3),
    ("self.list.all(x, x == 1)", 2 + 10 * (3 + 1) + 1),
    ("self == self", 2),
    ("self.map['a'].matches('^a')", 3 + 3 * 1),
    ("self.map.all(k, k.matches('^a'))", 2 + 4 * (3 + 1 + 1) + 1),
    ("self.map.filter(k, true).all(x, x == 'abc')", (2 + 10 + 4 * 14 + 1) + 4 * 3 + 1),
    ("(true ? self.text : 'a').matches('^a')", 2 + 3 * 1),
    ("[self.text][0].matches('^a')", 2 + 10 + 1 + 3 * 1),
    ("{'a': self.text}['a'].matches('^a')", 2 + 30 + 1 + 3 * 1),
    ("dyn(self).text.matches('^a')", 1 + 1 + 1),
    ("isIP(self.text)", 2 + 2),
    ("isURL(self.text)", 2 + 1),
    ("ip.isCanonical(self.text)", 2 + 4),
    ("quantity(self.text) == quantity('1')", 2 + 2 + 1 + 1),
    ("isSemver(self.text)", 2 + 2),
    ("cidr('10.0.0.0/8').containsIP(self.text)", 1 + 2 + 4 + 2),
    ("cidr('10.0.0.0/8').containsCIDR(self.text)", 1 + 2 + 7 + 2),
    ("format.dns1123Label().validate(self.text).hasValue()", 1 + 2 + 2 * 32 + 1),
    ("type(self.text) == string", 2 + 1 + 1),
    ("optional.of(1).optMap(v, v).hasValue()", (1 + 1) + (1 + 1) + 10 + 1 + 1 + 1),
    ("optional.of(1).optFlatMap(v, optional.of(v)).hasValue()", (1 + 1) + (1 + 1) + 10 + 2 + 1),
]

# Values whose size Kubernetes does not know: the results of calls, and fields of maps.
UNKNOWN_SIZES = [
    "self.map.a.matches('^a')",
    "self.?text.orValue('').matches('^a')",
    "self.objects.filter(o, true)[0].key.matches('^a')",
    "type(self.text) == type(self.free)",
]


@pytest.mark.parametrize(("expression", "expected"), ESTIMATES)
def test_estimates(expression, expected):
    self_type = type_of_schema(SCHEMA)
    assert self_type is not None
    assert Environment({"self": self_type}).compile(expression).most_cost == expected


@pytest.mark.parametrize("expression", UNKNOWN_SIZES)
def test_values_of_unknown_size_are_expensive(expression):
    self_type = type_of_schema(SCHEMA)
    assert self_type is not None
    assert Environment({"self": self_type}).compile(expression).most_cost > 10**18


def test_unbounded_sizes_are_estimated_by_the_largest_request():
    self_type = type_of_schema(SCHEMA)
    assert self_type is not None
    environment = Environment({"self": self_type, "x": DYN})
    most_items = (3 * 1024 * 1024 - 2) // 2
    assert environment.compile("self.any.all(x, x > 0)").most_cost == 2 + most_items * 5 + 1
    assert environment.compile("x.all(y, y > 0)").most_cost == UNBOUNDED


BOMBS = [
    "l.all(a, l.all(b, l.all(c, a + b + c >= 0)))",
    "l.map(a, l + l).size() > 0",
    "l.map(a, l.map(b, l)).size() > 0",
    "l.all(a, l == m.all)",
    "s.split('').map(c, s).join().size() > 0",
    "s.split('').map(c, s.replace('', s)).size() > 0",
    "l.all(a, s.matches('(a*)*b') || true)",
    "l.map(a, '%s'.format([l])).size() > 0",
    "l.all(a, sets.contains(l, l))",
    "l.transformMap(i, v, l).transformMapEntry(k, v, {k: l}).all(k, l.all(x, true))",
    "l.all(a, s.findAll('a').size() > 0)",
    "l.sort().size() > 0",
    "l.distinct().size() > 0",
    "l.sortBy(a, -a).size() > 0",
    "lists.range(1000000000000).size() > 0",
    "l.map(a, l).flatten().size() > 0",
    "l.all(a, [l, l, l].flatten().size() > 0)",
]


@pytest.mark.parametrize("expression", BOMBS)
def test_expensive_evaluations_end(expression):
    values = {"l": list(range(2000)), "s": "a" * 2000, "m": {"all": list(range(2000))}}
    environment = Environment({"l": list_of(INT), "s": STRING, "m": DYN})
    with pytest.raises(CostLimitExceeded, match="operation cancelled: actual cost limit exceeded"):
        environment.compile(expression).evaluate(values, Budget(), limit=20_000)


def test_the_limit_is_not_an_error_that_logic_ignores():
    environment = Environment({"l": list_of(INT)})
    for expression in ("l.all(a, l.all(b, true)) || true", "l.exists(c, l.all(a, l.all(b, true)) || true)"):
        with pytest.raises(CostLimitExceeded):
            environment.compile(expression).evaluate({"l": list(range(200))}, Budget(), limit=10_000)


def test_a_budget_covers_all_evaluations():
    program = Environment({"l": list_of(INT)}).compile("l.all(x, x >= 0)")
    budget = Budget(1000)
    for _ in range(3):
        program.evaluate({"l": list(range(50))}, budget)
    with pytest.raises(BudgetExceeded, match="running out of cost budget"):
        program.evaluate({"l": list(range(50))}, budget)


def test_a_short_limit_ends_a_straight_line():
    program = Environment({"l": list_of(INT)}).compile(" && ".join(["l[0] == 0"] * 50))
    with pytest.raises(CostLimitExceeded):
        program.evaluate({"l": [0]}, Budget(), limit=20)


def test_deeply_nested_values_are_compared_within_bounds():
    value: object = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(Exception, match="nested too deeply"):
        Environment({"a": DYN}).compile("a == a").evaluate({"a": value}, Budget())


def test_references_are_the_variables_that_are_read():
    environment = Environment({"self": DYN, "oldSelf": DYN})
    assert environment.compile("self.x == 1").references == {"self"}
    assert environment.compile("self.all(oldSelf, oldSelf > 0)").references == {"self"}
    assert environment.compile("oldSelf == self").references == {"self", "oldSelf"}


def test_the_type_of_an_estimate_without_types():
    assert Environment({"x": Type("dyn", most=7)}).compile("x.size() > 3").most_cost == 3
