"""Policies for requests of a part of a device's capacity: the values that may be asked for.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateRequestPolicy`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.objects.quantities import canonical_quantity, format_quantity, parse_quantity, whole_value

from .device_rules import validate_items

_MAX_VALUES = 10
_TWO_POLICIES = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'


def validate_request_policy(policy: Field, capacity: str) -> None:
    """Validate the policy for requests of a part of `capacity`."""
    values, limits, default = policy.at("validValues"), policy.at("validRange"), policy.at("default")
    if values and limits.value is not None:
        policy.forbidden(_TWO_POLICIES)
    elif default.value is None and (values or limits.value is not None):
        default.required(f"required when {'validValues' if values else 'validRange'} is defined")
    elif values:
        _validate_values(values, capacity, default.value)
    elif limits.value is not None:
        _validate_range(limits, capacity, default.value)


def _validate_values(values: Field, capacity: str, default: str) -> None:
    numbers = [parse_quantity(value) for value in values.value]
    for index, value in enumerate(values.each()):
        if index and numbers[index - 1] > numbers[index]:
            _invalid(value, value.value, "values must be sorted in ascending order")

    def validate(value: Field) -> None:
        _refuse_above(value, value.value, capacity, "option is larger than capacity value")

    validate_items(values, _MAX_VALUES, validate, lambda value: str(whole_value(value)))
    if len(numbers) > _MAX_VALUES or parse_quantity(default) not in numbers:
        _invalid(values, default, "default value is not valid according to the requestPolicy")


def _validate_range(limits: Field, capacity: str, default: str) -> None:
    least, most = limits.at("min"), limits.at("max")
    if not least.must_exist("required when validRange is defined"):
        return
    _refuse_above(least, least.value, capacity, "min is larger than capacity value")
    if parse_quantity(default) < parse_quantity(least.value):
        _invalid(least, default, f"default is less than min: {canonical_quantity(least.value)}")
    if most.value is not None:
        _refuse_above(most, least.value, most.value, "min is larger than max")
        _refuse_above(most, most.value, capacity, "max is larger than capacity value")
        _refuse_above(most, default, most.value, "default is more than max")
    if "step" in limits.value:
        _validate_step(limits, capacity, default)


def _validate_step(limits: Field, capacity: str, default: str) -> None:
    least, step = limits.get("min"), limits.at("step")
    first = parse_quantity(least) + parse_quantity(step.value)
    if first > parse_quantity(capacity):
        shown = format_quantity(first, is_binary=least.endswith("i"))
        detail = f"one step {shown} is larger than capacity value: {canonical_quantity(capacity)}"
        _invalid(step, step.value, detail)
    steps = f"({canonical_quantity(step.value)}) from ({canonical_quantity(least)})"
    size, start = whole_value(step.value), whole_value(least)
    for value in (default, limits.get("max")):
        if value is not None and size and (whole_value(value) - start) % size:
            _invalid(step, value, f"value is not a multiple of a given step {steps}")


def _refuse_above(quantity: Field, shown: str, limit: str, detail: str) -> None:
    """Add an error about `quantity` if `shown` is larger than a limit."""
    if parse_quantity(shown) > parse_quantity(limit):
        _invalid(quantity, shown, f"{detail}: {canonical_quantity(limit)}")


def _invalid(quantity: Field, shown: str, detail: str) -> None:
    quantity.showing(canonical_quantity(shown)).invalid(detail)
