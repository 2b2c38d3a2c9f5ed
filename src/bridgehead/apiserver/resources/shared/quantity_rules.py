"""Parsing and validation of quantities, and warnings about them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.quantities import canonical_quantity, milli_value, parse_quantity


# A cluster has few different quantities, and each is parsed several times for every pod.
@lru_cache(maxsize=1024)
def amount_of(quantity: str | int | float) -> Decimal | None:
    """Return the number of a quantity, or None for a malformed one."""
    try:
        return parse_quantity(quantity)
    except (ValueError, ArithmeticError):
        return None


def validate_quantity(quantity: Field) -> bool:
    """Validate that a quantity is not negative. Return whether it is valid."""
    amount = amount_of(quantity.value)
    if amount is None:
        quantity.invalid("must be a quantity")
    elif amount < 0:
        quantity.invalid("must be greater than or equal to 0")
    return amount is not None and amount >= 0


def quantity_text(quantity: Any) -> str:
    """Return a quantity as errors show it."""
    return canonical_quantity(str(quantity)) if amount_of(quantity) is not None else str(quantity)


def warn_of_fractional_bytes(path: str, quantities: JsonObject, names: Iterable[str]) -> list[str]:
    """Return warnings about parts of bytes in the quantities of the resources `names`. `path` is that of the list."""
    return [
        f'{path}[{name}]: fractional byte value "{quantity_text(quantity)}" is invalid, must be an integer'
        for name in names
        if (quantity := quantities.get(name)) is not None
        and amount_of(quantity) is not None
        and milli_value(quantity) % 1000
    ]
