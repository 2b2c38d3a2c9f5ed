"""Arithmetic: results of 64 bits or an error, as in two's complement hardware with overflow checks."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.cel import INT, Budget, Environment, EvaluationError
from bridgehead.apiserver.cel.library.conversions import format_double
from bridgehead.apiserver.cel.library.times import format_timestamp, parse_duration, parse_timestamp
from bridgehead.apiserver.cel.values import Timestamp

INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-10, 10) | st.sampled_from([-(2**63), 2**63 - 1])
_ENVIRONMENT = Environment({"a": INT, "b": INT})
PROGRAMS = {operator: _ENVIRONMENT.compile(f"a {operator} b") for operator in "+-*/%"}


def exact(operator: str, a: int, b: int) -> int:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return math.trunc(Fraction(a, b))
    return a - b * math.trunc(Fraction(a, b))


@given(st.sampled_from("+-*/%"), INTS, INTS)
def test_integers_are_exact_or_refused(operator, a, b):
    def run() -> int:
        return PROGRAMS[operator].evaluate({"a": a, "b": b}, Budget())

    if operator in "/%" and b == 0:
        with pytest.raises(EvaluationError, match="by zero"):
            run()
    elif -(2**63) <= exact(operator, a, b) < 2**63:
        assert run() == exact(operator, a, b)
    else:
        with pytest.raises(EvaluationError, match="integer overflow"):
            run()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_keeps_its_value_as_text(number):
    assert float(format_double(number)) == number


@given(st.integers(-62135596800 * 10**9, 253402300799 * 10**9))
def test_timestamps_keep_their_value_as_text(nanoseconds):
    assert parse_timestamp(format_timestamp(Timestamp(nanoseconds))) == nanoseconds


@given(st.integers(0, 2**62))
def test_durations_in_nanoseconds(nanoseconds):
    assert parse_duration(f"-{nanoseconds}ns") == -nanoseconds
