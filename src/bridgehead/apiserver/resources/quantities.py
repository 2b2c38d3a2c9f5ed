"""Quantities in objects: which number one stands for, and whether it may stand there.

Called by the validators of containers, volumes and nodes, and for a pod's quality of service.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.quantities import parse_quantity

from . import field


def amount_of(quantity: str | int | float) -> Decimal | None:
    """The number a quantity stands for, or None when it is none."""
    try:
        return parse_quantity(quantity)
    except (ValueError, ArithmeticError):
        return None


def validate_quantity(path: str, quantity: Any) -> list[FieldError]:
    amount = amount_of(quantity)
    if amount is None:
        return [field.invalid(path, quantity, "must be a quantity")]
    return [] if amount >= 0 else [field.invalid(path, quantity, "must be greater than or equal to 0")]
