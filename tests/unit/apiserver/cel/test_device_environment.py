# ruff: noqa: E501
"""Selectors of devices: types, costs and values, and `cel.bind`."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from bridgehead.apiserver.cel import Budget, CompileError, CostLimitExceeded, Environment, EvaluationError
from bridgehead.apiserver.cel.device_environment import MOST_COST, compile_selector
from bridgehead.apiserver.cel.library.quantities import Quantity

from .evaluation import evaluate

A, C = 'device.attributes["dra.example.com"]', 'device.capacity["dra.example.com"]'
LOOPS = "".join(f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x{i}, " for i in range(7))


class ByDomain(dict[str, Any]):
    """Values by domain; a domain that the device does not have is an empty map."""

    def __missing__(self, domain: str) -> Mapping[str, Any]:
        return {}


DEVICE = {
    "driver": "dra.example.com",
    "allowMultipleAllocations": False,
    "attributes": ByDomain({
        "dra.example.com": {"bool": True, "int": 1, "string": "fish", "version": evaluate('semver("1.0.0")')}}),
    "capacity": ByDomain({"dra.example.com": {"memory": Quantity(Decimal(2**20))}}),
}  # fmt: skip

# A selector, the most that it may cost, and its value for the device. Kubernetes has the costs in its own test.
VALID: list[tuple[str, int, bool]] = [
    ("true", 0, True),
    ('"no-such-domain" in device.attributes', 3, False),
    ('"dra.example.com" in device.attributes', 3, True),
    ('device.driver == "dra.example.com"', 4, True),
    (f"{A}.bool", 4, True),
    (f'{A}["bool"]', 4, True),
    (f"{A}.int > 0", 5, True),
    (f'{A}.string == "fish"', 5, True),
    (f'{A}.version.isGreaterThan(semver("0.0.1"))', 6, True),
    (f'{A}.version.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)', 7, True),
    (f'{C}.memory.isGreaterThan(quantity("1Ki"))', 6, True),
    (f'"memory" in {C} && {C}.memory.compareTo(quantity("1Ki")) > 0', 11, True),
    (f'!("fans" in {C}) || {C}.fans.isGreaterThan(quantity("1"))', 11, True),
    ('device.attributes.exists_one(x, x == "dra.example.com")', 164, True),
    (f'{C}.exists_one(x, x == "memory")', 133, True),
    (f'{A}.string.split("is").size() >= 2', 19, True),
    (f'{A}.string.matches("[^a]?sh")', 18, True),
    ('device.attributes.exists(d, m, m.exists(k, v, v == "fish"))', 6339, True),
    ("device.allowMultipleAllocations == false", 3, True),
    (f"has({A}.nosuch)", 3, False),
    (f"{A}.?nosuch.orValue(false)", 5, False),
    (f"{A}.bool ? true : false", 4, True),
    (f"true ? true : {A}.bool", 4, True),
    (f"cel.bind(dra, {A}, dra.bool)", 15, True),
    (f"cel.bind(dra, {A}, dra.bool && dra.int > 0)", 18, True),
    (f'cel.bind(dra, {A}, dra.string.matches("[^a]?sh"))', 29, True),
    (f'cel.bind(dra, {A}, dra.all(k, k.matches("x")))', 271, False),
    (f'cel.bind(dra, {C}, dra.memory.isGreaterThan(quantity("1Ki")))', 17, True),
    ('cel.bind(d, device, d.driver == "" || d.attributes["dra.example.com"].bool)', 17, True),
    (f'cel.bind(a, [{A}.string], a.exists(x, x.matches("y")))', 14 + 10 + 2 + 12, False),
]  # fmt: skip

# Values whose size is not known, which makes selectors too expensive.
EXPENSIVE = [
    f'{A}.?string.orValue("").matches("^A.*b")',
    f'cel.bind(dra, {A}, dra).string.matches("^A.*b")',
    f'({A}.bool ? {A} : {A}).string.matches("^A.*b")',
    f'{A}.transformMap(k, v, v).all(k, v, v.matches("^A.*b"))',
    "device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, device.attributes.all(g, d == e && f == g))))",
    f"{LOOPS}int('1'.find('[0-9]*')) < 100{')' * 7}",
]  # fmt: skip

WRONG_TYPES = [
    ("1", "int"),
    ("dyn(true)", "dyn"),
    ("null", "null_type"),
    ("duration('1s')", "google.protobuf.Duration"),
    ("device", "kubernetes.DRADevice"),
    ("device.attributes", "map(string, map(string, google.protobuf.Any))"),
    (f"{A}.?name", "optional_type(google.protobuf.Any)"),
    (f"{A}.name.field", "dyn"),
    (f"{C}.memory", "kubernetes.Quantity"),
    ("[timestamp(1)]", "list(google.protobuf.Timestamp)"),
]

INVALID = [
    ("", "<input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', "
     "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"),
    ("device.nosuch", "<input>:1:7: undefined field 'nosuch'\n | device.nosuch\n | ......^"),
    ("object", "<input>:1:1: undeclared reference to 'object' (in container '')\n | object\n | ^"),
    ("device.attributes.d.a.all(x, x)", "<input>:1:20: expression of type 'any' cannot be range of a comprehension (must "
     "be list, map, or dynamic)\n | device.attributes.d.a.all(x, x)\n | ...................^"),
    ("device.attributes.d.a.sortBy(x, x)", "<input>:1:29: expression of type 'any' cannot be range of a comprehension "
     "(must be list, map, or dynamic)\n | device.attributes.d.a.sortBy(x, x)\n | ............................^"),
    ("device.attributes.d.a.includes(1)", "<input>:1:31: undeclared reference to 'includes' (in container '')\n"
     " | device.attributes.d.a.includes(1)\n | ..............................^"),
    ("[1, device.attributes.d.a] == []", "<input>:1:24: expected type 'int' but found 'any'\n"
     " | [1, device.attributes.d.a] == []\n | .......................^"),
    ("device.capacity.d.c > 1", "<input>:1:21: found no matching overload for '_>_' applied to '(kubernetes.Quantity, "
     "int)'\n | device.capacity.d.c > 1\n | ....................^"),
    ("device.capacity.d.c.value > 1", "<input>:1:20: unexpected failed resolution of 'kubernetes.Quantity'\n"
     " | device.capacity.d.c.value > 1\n | ...................^"),
    ('kubernetes.DRADevice{driver: 1} == device', "<input>:1:28: expected type of field 'driver' is 'string' but provided "
     "type is 'int'\n | kubernetes.DRADevice{driver: 1} == device\n | ...........................^"),
    ("cel.bind(1, 1, true)", "<input>:1:10: cel.bind() variable names must be simple identifiers\n"
     " | cel.bind(1, 1, true)\n | .........^"),
    ("cel.bind(a, a, true)", "<input>:1:13: undeclared reference to 'a' (in container '')\n"
     " | cel.bind(a, a, true)\n | ............^"),
    ('cel.bind(a, "x", a > 1)', "<input>:1:20: found no matching overload for '_>_' applied to '(string, int)'\n"
     ' | cel.bind(a, "x", a > 1)\n | ...................^'),
    ("cel.foo()", "<input>:1:1: undeclared reference to 'cel' (in container '')\n | cel.foo()\n | ^\n"
     "ERROR: <input>:1:8: undeclared reference to 'foo' (in container '')\n | cel.foo()\n | .......^"),
]  # fmt: skip

# Expressions with `cel.bind`, what they cost and their value; None: they fail, as the division by zero does.
BINDINGS: list[tuple[str, int, Any]] = [
    ("cel.bind(a, 1, a)", 1, 1),
    ("cel.bind(a, 1 / 0, true)", 0, True),
    ("cel.bind(a, 1 / 0, a == 1)", 3, None),
    ("cel.bind(a, 1 / 0, true || a == 1)", 0, True),
    ("cel.bind(a, 1 / 0, a == 1 || a == 2 || true)", 5, True),
    ("cel.bind(a, 'x', cel.bind(b, 'y', a + b + b + a))", 4 + 3, "xyyx"),
    ("cel.bind(a, 1, cel.bind(a, a + 1, cel.bind(a, a + 1, a)))", 3 + 2, 3),
    ("cel.bind(a, 1, a) + cel.bind(a, 2, a)", 3, 3),
    ("(cel).bind(a, 1, a)", 1, 1),
    ("[1].all(cel, cel.bind(a, true, a))", 10 - 10 + 3 + 1 + 1, True),
    ("[1, 2].map(x, cel.bind(y, x * 10, y + x))", 1 + 2 * (12 + 2 + 3), [11, 22]),
    # The value is computed within the loop, whose variable it must not overwrite.
    ("cel.bind(x, [1].map(y, y * 2), [5, 6].map(z, x[0] + z))", 48, [7, 8]),
    ("[1, 2].map(a, cel.bind(x, cel.bind(w, a * 10, [w].map(q, q + 1)[0]), [5, 6].map(z, x + z + a)))", 153,
     [[17, 18], [28, 29]]),
    ("optional.of(1).optMap(v, cel.bind(w, v + 1, w)).value()", 9, 2),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "cost", "matches"), VALID)
def test_selectors_compile_and_match(expression, cost, matches):
    program = compile_selector(expression)
    assert program.most_cost == cost
    budget = Budget()
    before = budget.remaining
    assert program.evaluate({"device": DEVICE}, budget, MOST_COST) is matches
    assert before - budget.remaining <= cost


@pytest.mark.parametrize("expression", EXPENSIVE)
def test_selectors_may_be_too_expensive(expression):
    assert compile_selector(expression).most_cost > MOST_COST


def test_fields_of_attributes_are_free_in_estimates():
    assert compile_selector(f"{A}.field.another == 1").most_cost == compile_selector(f"{A}.field == 1").most_cost


def test_an_evaluation_ends_at_the_limit():
    with pytest.raises(CostLimitExceeded):
        compile_selector(EXPENSIVE[-1]).evaluate({"device": DEVICE}, Budget(), MOST_COST // 10)


@pytest.mark.parametrize(("expression", "found"), WRONG_TYPES)
def test_a_selector_is_a_bool_or_of_unknown_type(expression, found):
    with pytest.raises(CompileError) as caught:
        compile_selector(expression)
    assert str(caught.value) == f"must evaluate to bool or the unknown type, not {found}"


@pytest.mark.parametrize(("expression", "problem"), INVALID)
def test_invalid_selectors_are_refused(expression, problem):
    with pytest.raises(CompileError) as caught:
        compile_selector(expression)
    assert str(caught.value) == f"compilation failed: ERROR: {problem}"


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ('device.attributes["no-such-domain"].nosuch.isGreaterThan(quantity("0"))', "no such key: nosuch"),
        (f"{A}.string > 1", "no such overload"),
        ("kubernetes.DRADevice{} == device", "unknown type 'kubernetes.DRADevice'"),
    ],
)
def test_a_selector_may_fail(expression, problem):
    with pytest.raises(EvaluationError, match=problem):
        compile_selector(expression).evaluate({"device": DEVICE}, Budget())


@pytest.mark.parametrize(("expression", "cost", "value"), BINDINGS)
def test_bind_computes_a_value_when_it_is_read(expression, cost, value):
    program = Environment({}, has_bind=True).compile(expression)
    budget = Budget()
    before = budget.remaining
    if value is None:
        with pytest.raises(EvaluationError, match="division by zero"):
            program.evaluate({}, budget)
    else:
        assert program.evaluate({}, budget) == value
    assert before - budget.remaining == cost


def test_only_selectors_of_devices_have_bind():
    with pytest.raises(CompileError, match="undeclared reference to 'bind'"):
        Environment({}).compile("cel.bind(a, 1, a)")
