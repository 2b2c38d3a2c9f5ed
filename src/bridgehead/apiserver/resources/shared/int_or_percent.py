"""Numbers of pods that may be percentages, such as `maxUnavailable`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePositiveIntOrPercent`, `IsNotMoreThan100Percent`.
"""

from __future__ import annotations

import re
from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.objects.integers import parse_integer

_PERCENT = re.compile("[0-9]+%")


def validate_amount(amount: Field) -> None:
    """Validate a number of pods, or a percentage such as `25%`."""
    if isinstance(amount.value, int):
        amount.must_not_be_negative()
    elif not _PERCENT.fullmatch(str(amount.value)):
        amount.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
            "used for validation is '[0-9]+%')"
        )


def is_zero(value: Any) -> bool:
    """Whether it stands for no pods. As in Kubernetes, what is neither a number nor a percentage does."""
    return not value if isinstance(value, int) else not parse_integer(str(value).removesuffix("%"))


def validate_share(amount: Field) -> None:
    """Validate a number of pods, or a percentage of at most 100%."""
    validate_amount(amount)
    validate_not_more_than_all(amount)


def validate_not_more_than_all(amount: Field) -> None:
    """Validate that a valid percentage is at most 100%."""
    if isinstance(amount.value, str) and _PERCENT.fullmatch(amount.value):
        percent = parse_integer(amount.value.removesuffix("%"))
        if percent is None or percent > 100:
            amount.invalid("must not be greater than 100%")
