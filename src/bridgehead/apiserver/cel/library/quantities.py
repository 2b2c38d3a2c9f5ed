"""Quantities.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `apiserver/pkg/cel/library/quantity.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from bridgehead.apiserver.cel.costs import TEXT_PARSING
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.types import opaque
from bridgehead.objects.quantities import parse_quantity

_MOST_CHARACTERS = 100
_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@dataclass(frozen=True, slots=True)
class Quantity:
    value: Decimal
    cel_type = opaque("kubernetes.Quantity")


def _parse(text: str) -> Quantity:
    """Raises ValueError or ArithmeticError for text that is not a quantity."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(text)
    value = parse_quantity(text)
    if abs(value.adjusted()) > _MOST_CHARACTERS:
        raise ValueError(text)
    return Quantity(value)


def _quantity(text: str) -> Quantity:
    try:
        return _parse(text)
    except (ValueError, ArithmeticError):
        raise EvaluationError(_FORM) from None


def _is_quantity(text: str) -> bool:
    try:
        _parse(text)
    except (ValueError, ArithmeticError):
        return False
    return True


def _is_integer(one: Quantity) -> bool:
    return one.value == one.value.to_integral_value() and -(2**63) <= one.value < 2**63


def _as_integer(one: Quantity) -> int:
    if _is_integer(one):
        return int(one.value)
    raise EvaluationError("cannot convert value to integer")


def _sign(one: Quantity) -> int:
    return (one.value > 0) - (one.value < 0)


def _compare(one: Quantity, other: Quantity) -> int:
    return (one.value > other.value) - (one.value < other.value)


_Q = "kubernetes.Quantity"

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "quantity": (overload(f"(string) -> {_Q}", _quantity, TEXT_PARSING),),
    "isQuantity": (overload("(string) -> bool", _is_quantity, TEXT_PARSING),),
    # A function, although Kubernetes' documentation has it as a method.
    "sign": (overload(f"({_Q}) -> int", _sign),),
    "isInteger": (overload(f"{_Q}.() -> bool", _is_integer),),
    "asInteger": (overload(f"{_Q}.() -> int", _as_integer),),
    "asApproximateFloat": (overload(f"{_Q}.() -> double", lambda one: float(one.value)),),
    "isGreaterThan": (overload(f"{_Q}.({_Q}) -> bool", lambda one, other: one.value > other.value),),
    "isLessThan": (overload(f"{_Q}.({_Q}) -> bool", lambda one, other: one.value < other.value),),
    "compareTo": (overload(f"{_Q}.({_Q}) -> int", _compare),),
    "add": (
        overload(f"{_Q}.({_Q}) -> {_Q}", lambda one, other: Quantity(one.value + other.value)),
        overload(f"{_Q}.(int) -> {_Q}", lambda one, number: Quantity(one.value + number)),
    ),
    "sub": (
        overload(f"{_Q}.({_Q}) -> {_Q}", lambda one, other: Quantity(one.value - other.value)),
        overload(f"{_Q}.(int) -> {_Q}", lambda one, number: Quantity(one.value - number)),
    ),
}
