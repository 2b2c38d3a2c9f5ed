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
    elif values:
        if default.value is None:
            default.required("required when validValues is defined")
        else:
            _validate_values(values, capacity, default.value)
    elif limits.value is not None:
        if default.value is None:
            default.required("required when validRange is defined")
        else:
            _validate_range(limits, capacity, default.value)


def _validate_values(values: Field, capacity: str, default: str) -> None:
    numbers = [parse_quantity(value) for value in values.value]
    for value, before, number in zip(list(values.each())[1:], numbers, numbers[1:], strict=False):
        if before > number:
            _invalid(value, value.value, "values must be sorted in ascending order")

    def validate(value: Field) -> None:
        if parse_quantity(value.value) > parse_quantity(capacity):
            _invalid(value, value.value, f"option is larger than capacity value: {canonical_quantity(capacity)}")

    validate_items(values, _MAX_VALUES, validate, lambda value: str(whole_value(value)))
    if len(numbers) > _MAX_VALUES or parse_quantity(default) not in numbers:
        _invalid(values, default, "default value is not valid according to the requestPolicy")


def _validate_range(limits: Field, capacity: str, default: str) -> None:
    least, most, step = limits.at("min"), limits.at("max"), limits.at("step")
    if least.value is None:
        least.required("required when validRange is defined")
        return
    # Each row: the field, the value that is shown, whether it must be the smaller one, the other one, the error.
    rows = [
        (least, least.value, True, capacity, "min is larger than capacity value"),
        (least, default, False, least.value, "default is less than min"),
    ]
    if most.value is not None:
        rows += [
            (most, least.value, True, most.value, "min is larger than max"),
            (most, most.value, True, capacity, "max is larger than capacity value"),
            (most, default, True, most.value, "default is more than max"),
        ]
    for limit, value, is_smaller, other, detail in rows:
        difference = parse_quantity(value) - parse_quantity(other)
        if difference > 0 if is_smaller else difference < 0:
            _invalid(limit, value, f"{detail}: {canonical_quantity(other)}")
    if step.value is not None:
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


def _invalid(quantity: Field, shown: str, detail: str) -> None:
    quantity.showing(canonical_quantity(shown)).invalid(detail)
