"""Any expression with any values: a result, or an error of CEL; nothing else, and within bounds."""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any

from bridgehead.apiserver.cel import DYN, Budget, BudgetExceeded, CompileError, Environment, EvaluationError
from bridgehead.apiserver.cel.admission_environments import admission_environment
from bridgehead.apiserver.cel.estimation import estimate_cost
from bridgehead.apiserver.cel.library import STANDARD
from bridgehead.apiserver.cel.parser import parse
from bridgehead.apiserver.cel.types import INT, list_of

LEAVES = [
    "x", "y", "z", "1", "-1", "0", "2u", "1.5", "'a'", "''", "'10.0.0.1/8'", "b'a'", "true", "null", "[]", "{}",
    "[1, 2]", "['a']", "{'a': 1}", "duration('1s')", "timestamp(0)", "optional.none()", "optional.of(x)", "type(x)",
    "int", "ip('::1')", "cidr('10.0.0.0/8')", "quantity('1Gi')", "semver('1.2.3')", "url('https://a/b')",
    "format.uri()",
]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||"]
MACROS = [
    "{}.all(v, {})", "{}.exists(v, {})", "{}.exists_one(v, {})", "{}.filter(v, {})", "{}.map(v, {})",
    "{}.map(v, {}, {})", "{}.all(k, v, {})", "{}.exists(k, v, {})", "{}.transformList(k, v, {})",
    "{}.transformMap(k, v, {})", "{}.transformMapEntry(k, v, {{v: {}}})", "{}.optMap(v, {})", "{}.optFlatMap(v, {})",
]  # fmt: skip
SHAPES = [
    "dyn({})", "!{}", "-{}", "{} ? {} : {}", "[{}, {}]", "[?{}]", "{{{}: {}}}", "{{?'a': {}}}", "{}[{}]", "{}[?{}]",
    "{}.a", "{}.?a", "has({}.a)", "'%s %d %f %x'.format([{}, {}, {}, {}])",
]  # fmt: skip
# Name, number of operands, and whether it is a method, of each overload.
CALLS = [
    (name, len(one.operands), one.is_member)
    for name, overloads in STANDARD.items()
    for one in overloads
    if name[0].isalpha()
]
ENVIRONMENT = Environment({"x": DYN, "y": DYN, "z": DYN})
_ROUNDS = 1500


def expression(random: Random, depth: int, untyped: float) -> str:
    """Return a random expression. A share of the operands is `untyped`, so that the evaluation has to refuse them."""
    if depth == 0 or random.random() < 0.15:
        return random.choice(LEAVES)

    def inner() -> str:
        made = expression(random, depth - 1, untyped)
        return f"dyn({made})" if random.random() < untyped else made

    match random.randrange(5):
        case 0:
            return f"({inner()} {random.choice(OPERATORS)} {inner()})"
        case 1:
            shape = random.choice([*SHAPES, *MACROS])
            holes = shape.replace("{{", "").replace("}}", "").count("{}")
            return f"({shape.format(*(inner() for _ in range(holes)))})"
    name, count, is_member = random.choice(CALLS)
    operands = [inner() for _ in range(count)]
    if is_member:
        return f"{operands[0]}.{name}({', '.join(operands[1:])})"
    return f"{name}({', '.join(operands)})"


def value(random: Random, depth: int) -> Any:
    if depth and random.random() < 0.5:
        items = [value(random, depth - 1) for _ in range(random.randrange(4))]
        return items if random.random() < 0.5 else dict(zip("abc", items, strict=False))
    return random.choice([None, True, False, 0, 1, -(2**63), 2**63 - 1, 0.0, -1.5, 1e300, "", "a", "é", "1.2.3", "::1"])


def test_any_expression_ends_with_a_result_or_an_error():
    random = Random(1)
    refusals: list[str] = []
    failures: list[str] = []
    values = 0
    for _ in range(_ROUNDS):
        text, x, y = expression(random, 3, 0.7), value(random, 3), value(random, 2)
        try:
            program = ENVIRONMENT.compile(text)
        except CompileError as error:
            refusals.append(str(error))
            continue
        assert program.most_cost >= 0
        try:
            program.evaluate({"x": x, "y": y}, Budget(100_000), limit=50_000)
            values += 1
        except (EvaluationError, BudgetExceeded) as error:
            failures.append(str(error))
    assert all(
        one.startswith(("compilation failed: ERROR: <input>:", "program instantiation failed: ")) for one in refusals
    )
    assert all(failures)
    assert min(len(refusals), len(failures), values) > 100


def test_any_text_is_parsed_or_refused():
    random = Random(2)
    for _ in range(_ROUNDS):
        text = "".join(random.choices("x1.'\"()[]{}?:,+-!&|<>= \\\nu", k=random.randrange(30)))
        with contextlib.suppress(CompileError):
            parse(text)


def test_an_evaluation_costs_no_more_than_its_estimate():
    random = Random(3)
    environment = Environment({"x": list_of(INT, most=5), "y": INT, "z": list_of(INT, most=5)})
    compared = 0
    for _ in range(_ROUNDS):
        text = expression(random, 3, 0.0)
        if "dyn(" in text or ".a" in text:
            continue  # Kubernetes takes an untyped target of `sum` for a string, and fields of untyped values are free
        budget = Budget(10**9)
        try:
            program = environment.compile(text)
            program.evaluate({"x": random.choices(range(-5, 5), k=random.randrange(6)), "y": 3, "z": [1]}, budget)
        except (CompileError, EvaluationError):
            continue
        assert 10**9 - budget.remaining <= program.most_cost, text
        compared += 1
    assert compared > 50


def test_variables_of_admission_have_types():
    environment = admission_environment(has_params=True, variables={"a": DYN})
    assert estimate_cost(parse("1"), {}).most == 0
    assert environment.compile("variables.a == params.b && namespaceObject.metadata.name == ''").references == {
        "variables", "params", "namespaceObject",
    }  # fmt: skip
