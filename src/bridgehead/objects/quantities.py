"""Resource quantities: `100m`, `1.5`, `2Gi`, `1e3`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Quantity", `apimachinery/pkg/api/resource`.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_UP, Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_MOST = Decimal(2**63 - 1)
NANO, MILLI = Decimal("1e-9"), Decimal("1e-3")


def parse_quantity(value: str | int | float) -> Decimal:
    """Return the number that a quantity stands for. Raises ValueError for an invalid quantity."""
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
    """Return a quantity in thousandths, rounded up: `0.1` of a CPU is 100. Raises ValueError."""
    return int((parse_quantity(value) * 1000).to_integral_value(ROUND_CEILING))


def whole_value(value: str | int | float) -> int:
    """Return a quantity in whole units, rounded up: bytes of memory, numbers of pods. Raises ValueError."""
    return int(parse_quantity(value).to_integral_value(ROUND_CEILING))


def canonical_quantity(text: str, least: Decimal = NANO) -> str:
    """Return a quantity in the form in which the API writes it: `1024Mi` is `1Gi`, `0.5` is `500m`, `1000` is `1k`.

    Binary quantities keep binary suffixes and exponents stay exponents. As in Kubernetes, the number is at most 2^63-1
    and rounded away from zero to multiples of `least`. Raises ValueError for an invalid quantity.
    """
    value = max(-_MOST, min(_MOST, parse_quantity(text))).quantize(least, ROUND_UP)
    if not value:
        return "0"
    has_exponent = text[-1].isdigit() and "e" in text.lower()
    return _format(value, is_binary=text.endswith("i"), has_exponent=has_exponent)


def format_quantity(value: Decimal, *, is_binary: bool = False) -> str:
    """Return the quantity that stands for a number, with suffixes as in `1Gi` (`is_binary`) or in `1G`."""
    return _format(value, is_binary=is_binary, has_exponent=False) if value else "0"


def _format(value: Decimal, *, is_binary: bool, has_exponent: bool) -> str:
    if is_binary and abs(value) >= 1024:  # smaller ones are not rounded, so that they have decimal suffixes
        return _binary(int(value.to_integral_value(ROUND_UP)))
    sign, digits, exponent = value.normalize().as_tuple()
    number, power = int("".join(map(str, digits))), int(exponent)
    shift = power % 3
    number, power = number * 10**shift, power - shift
    suffix = (f"e{power}" if power else "") if has_exponent else _BY_EXPONENT[power]
    return f"{'-' if sign else ''}{number}{suffix}"


def _binary(number: int) -> str:
    suffix = ""
    for name in _BINARY:
        if number % 1024:
            break
        number, suffix = number // 1024, name
    return f"{number}{suffix}"
