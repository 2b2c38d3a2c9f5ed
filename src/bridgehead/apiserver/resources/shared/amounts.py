"""Numbers of pods that may be percentages, such as `maxUnavailable`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePositiveIntOrPercent`, `IsNotMoreThan100Percent`.
"""

from __future__ import annotations

import re
from typing import Any

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.integers import parse_integer

from . import field

_PERCENT = re.compile("[0-9]+%")


def validate_amount(path: str, value: Any) -> list[FieldError]:
    """Validate a number of pods, or a percentage such as `25%`."""
    if isinstance(value, int):
        return field.non_negative(path, value)
    if not _PERCENT.fullmatch(str(value)):
        detail = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
            "used for validation is '[0-9]+%')"
        )
        return [field.invalid(path, value, detail)]
    return []


def is_zero(value: Any) -> bool:
    """Whether it stands for no pods. As in Kubernetes, what is neither a number nor a percentage does."""
    return not value if isinstance(value, int) else not parse_integer(str(value).removesuffix("%"))


def validate_share(path: str, value: Any) -> list[FieldError]:
    """Validate a number of pods, or a percentage of at most 100%."""
    return [*validate_amount(path, value), *validate_not_more_than_all(path, value)]


def validate_not_more_than_all(path: str, value: Any) -> list[FieldError]:
    """Validate that a valid percentage is at most 100%."""
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        return []
    percent = parse_integer(value.removesuffix("%"))
    if percent is not None and percent <= 100:
        return []
    return [field.invalid(path, value, "must not be greater than 100%")]
