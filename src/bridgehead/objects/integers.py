"""Integers in text, as in annotations, selectors and percentages.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re

# Python refuses to convert thousands of digits, and takes long for hundreds. Some leading zeros are fine.
_DECIMAL = re.compile(r"[+-]?[0-9]{1,40}")


def parse_integer(text: str, bits: int = 64) -> int | None:
    """Return a signed decimal integer that has room in `bits`; None for any other text. Source: strconv.ParseInt."""
    if not _DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None
