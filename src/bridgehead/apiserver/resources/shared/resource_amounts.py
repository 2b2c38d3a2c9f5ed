"""Validation of the quantity of a resource, in pods and in quotas.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateResourceQuantityValue`.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.quantities import milli_value

from . import field
from .quantities import amount_of, quantity_text
from .resource_names import OBJECT_COUNTS, is_extended


def validate_resource_amount(path: str, name: str, quantity: Any) -> list[FieldError]:
    """Validate the quantity of a resource. `name` decides whether it may have parts."""
    amount = amount_of(quantity)
    if amount is None:
        return [field.invalid(path, quantity, "must be a quantity")]
    errors = []
    if amount < 0:
        errors.append(field.invalid(path, quantity_text(quantity), "must be greater than or equal to 0"))
    if (name in OBJECT_COUNTS or is_extended(name)) and milli_value(quantity) % 1000:
        errors.append(field.invalid(path, quantity_text(quantity), "must be an integer"))
    return errors
