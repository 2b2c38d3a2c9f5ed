"""Parsing and validation of quantities.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.quantities import parse_quantity

from . import field


# A cluster has few different quantities, and each is parsed several times for every pod.
@lru_cache(maxsize=1024)
def amount_of(quantity: str | int | float) -> Decimal | None:
    """Return the number of a quantity, or None for a malformed one."""
    try:
        return parse_quantity(quantity)
    except (ValueError, ArithmeticError):
        return None


def validate_quantity(path: str, quantity: Any) -> list[FieldError]:
    amount = amount_of(quantity)
    if amount is None:
        return [field.invalid(path, quantity, "must be a quantity")]
    return [] if amount >= 0 else [field.invalid(path, quantity, "must be greater than or equal to 0")]
