"""Numbers of pods that may be percentages, such as `maxUnavailable`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePositiveIntOrPercent`, `IsNotMoreThan100Percent`.
"""

from __future__ import annotations

import re
from typing import Any

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.integers import parse_integer

from . import field


def validate_amount(path: str, value: Any) -> list[FieldError]:
    """Validate a number of pods, or a percentage such as `25%`."""
    if isinstance(value, int):
        return field.non_negative(path, value)
    if not re.fullmatch(r"[0-9]+%", str(value)):
        detail = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
            "used for validation is '[0-9]+%')"
        )
        return [field.invalid(path, value, detail)]
    return []


def is_zero(value: Any) -> bool:
    return value in (0, "0%")


def validate_share(path: str, value: Any) -> list[FieldError]:
    """Validate a number of pods, or a percentage of at most 100%."""
    errors = validate_amount(path, value)
    if errors or not isinstance(value, str):
        return errors
    percent = parse_integer(value.removesuffix("%"))
    if percent is None or percent > 100:
        errors.append(field.invalid(path, value, "must not be greater than 100%"))
    return errors
