"""Resource quantities such as `250m`, `64Mi` and `1e3` (source: Kubernetes "Quantity")."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]+|[+-]?[0-9]+\.)(?:[eE]([+-]?[0-9]+)|([numkMGTPE]i?|Ki)?)")


def parse_quantity(text: str | int | float) -> Fraction:
    """The exact value. Raises ValueError for what is no quantity."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None or (found.group(3) or "") not in _SUFFIXES:
        raise ValueError(
            f"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': {text!r}"
        )
    number, exponent, suffix = found.groups()
    value = Fraction(number.rstrip(".") or "0")
    if exponent is not None:
        return value * Fraction(10) ** int(exponent)
    return value * _SUFFIXES[suffix or ""]


def divide_rounded_up(value: str | int | float, divisor: str | int | float) -> int:
    """`value / divisor` rounded up, as a resourceFieldRef gives it. A divisor of "" or 0 is 1."""
    unit = parse_quantity(divisor) if str(divisor) not in ("", "0") else Fraction(1)
    return math.ceil(parse_quantity(value) / unit)
