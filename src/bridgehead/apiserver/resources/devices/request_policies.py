"""Policies for requests of a part of a device's capacity: the values that may be asked for.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateRequestPolicy`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.quantities import canonical_quantity, format_quantity, parse_quantity, whole_value

from .device_rules import validate_items

_MAX_VALUES = 10
_TWO_POLICIES = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'


def validate_request_policy(path: str, capacity: str, policy: JsonObject) -> list[FieldError]:
    """Validate the policy for requests of a part of `capacity`."""
    values, limits, default = (policy.get(name) for name in ("validValues", "validRange", "default"))
    if values and limits is not None:
        return [field.forbidden(path, _TWO_POLICIES)]
    if not values and limits is None:
        return []
    name = "validValues" if values else "validRange"
    if default is None:
        return [field.required(f"{path}.default", f"required when {name} is defined")]
    if values:
        return _validate_values(f"{path}.{name}", capacity, values, default)
    return _validate_range(f"{path}.{name}", capacity, limits or {}, default)


def _validate_values(path: str, capacity: str, values: Sequence[str], default: str) -> list[FieldError]:
    most = parse_quantity(capacity)
    errors = [
        _invalid(f"{path}[{index}]", value, "values must be sorted in ascending order")
        for index, value in enumerate(values)
        if index and parse_quantity(values[index - 1]) > parse_quantity(value)
    ]

    def validate(item: str, value: str) -> list[FieldError]:
        if parse_quantity(value) <= most:
            return []
        return [_invalid(item, value, f"option is larger than capacity value: {canonical_quantity(capacity)}")]

    errors.extend(validate_items(path, values, _MAX_VALUES, validate, lambda value: str(whole_value(value))))
    is_listed = len(values) <= _MAX_VALUES and parse_quantity(default) in map(parse_quantity, values)
    if not is_listed:
        errors.append(_invalid(path, default, "default value is not valid according to the requestPolicy"))
    return errors


def _validate_range(path: str, capacity: str, limits: JsonObject, default: str) -> list[FieldError]:
    least, most, step = (limits.get(name) for name in ("min", "max", "step"))
    if least is None:
        return [field.required(f"{path}.min", "required when validRange is defined")]
    # Each row: the field, the value that is shown, whether it must be the smaller one, the other one, the error.
    rows = [
        ("min", least, True, capacity, "min is larger than capacity value"),
        ("min", default, False, least, "default is less than min"),
    ]
    if most is not None:
        rows += [
            ("max", least, True, most, "min is larger than max"),
            ("max", most, True, capacity, "max is larger than capacity value"),
            ("max", default, True, most, "default is more than max"),
        ]
    errors = [
        _invalid(f"{path}.{name}", value, f"{detail}: {canonical_quantity(other)}")
        for name, value, is_smaller, other, detail in rows
        if (
            parse_quantity(value) > parse_quantity(other)
            if is_smaller
            else parse_quantity(value) < parse_quantity(other)
        )
    ]
    return errors if step is None else errors + _validate_step(f"{path}.step", capacity, default, limits)


def _validate_step(path: str, capacity: str, default: str, limits: JsonObject) -> list[FieldError]:
    least, step = limits["min"], limits["step"]
    first = parse_quantity(least) + parse_quantity(step)
    errors = []
    if first > parse_quantity(capacity):
        shown = format_quantity(first, is_binary=least.endswith("i"))
        detail = f"one step {shown} is larger than capacity value: {canonical_quantity(capacity)}"
        errors.append(_invalid(path, step, detail))
    detail = f"value is not a multiple of a given step ({canonical_quantity(step)}) from ({canonical_quantity(least)})"
    size, start = whole_value(step), whole_value(least)
    values = (default, limits["max"]) if "max" in limits else (default,)
    errors.extend(_invalid(path, value, detail) for value in values if size and (whole_value(value) - start) % size)
    return errors


def _invalid(path: str, quantity: str, detail: str) -> FieldError:
    return field.invalid(path, canonical_quantity(quantity), detail)
