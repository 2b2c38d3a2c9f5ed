"""Validation of the quantity of a resource, in pods and in quotas.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateResourceQuantityValue`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.objects.quantities import milli_value

from .quantity_rules import amount_of, quantity_text
from .resource_names import OBJECT_COUNTS, is_extended


def validate_resource_amount(quantity: Field, name: str) -> None:
    """Validate the quantity of a resource. `name` decides whether it may have parts."""
    amount = amount_of(quantity.value)
    if amount is None:
        quantity.invalid("must be a quantity")
        return
    reasons = [] if amount >= 0 else ["must be greater than or equal to 0"]
    if (name in OBJECT_COUNTS or is_extended(name)) and milli_value(quantity.value) % 1000:
        reasons.append("must be an integer")
    for reason in reasons:
        quantity.showing(quantity_text(quantity.value)).invalid(reason)
