"""Resource quantities: `100m`, `1.5`, `2Gi`, `1e3` (source: Kubernetes "Quantity", `apimachinery/pkg/api/resource`)."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse_quantity(value: str | int | float) -> Decimal:
    """The number that a quantity stands for. Raises ValueError when it isn't one."""
    found = _QUANTITY.fullmatch(str(value))
    if found is None:
        raise ValueError(f"unable to parse quantity's suffix: {value!r}")
    number, exponent, suffix = found.groups()
    if exponent:
        return Decimal(number + exponent)
    if suffix in _BINARY:
        return Decimal(number) * (1 << _BINARY[suffix])
    return Decimal(number).scaleb(_DECIMAL[suffix or ""])


def milli_value(value: str | int | float) -> int:
    """A quantity in thousandths, rounded up: `0.1` of a CPU is 100. Raises ValueError."""
    return int((parse_quantity(value) * 1000).to_integral_value(ROUND_CEILING))


def whole_value(value: str | int | float) -> int:
    """A quantity in whole units, rounded up: bytes of memory, numbers of pods. Raises ValueError."""
    return int(parse_quantity(value).to_integral_value(ROUND_CEILING))
