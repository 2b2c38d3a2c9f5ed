"""Integers in text."""

from __future__ import annotations

import pytest

from bridgehead.objects.integers import parse_integer


@pytest.mark.parametrize(
    ("text", "bits", "expected"),
    [
        ("0", 64, 0),
        ("-12", 64, -12),
        ("+12", 64, 12),
        ("007", 64, 7),
        ("9223372036854775807", 64, 2**63 - 1),
        ("9223372036854775808", 64, None),
        ("-2147483648", 32, -(2**31)),
        ("2147483648", 32, None),
        ("9" * 5000, 64, None),
        ("", 64, None),
        ("-", 64, None),
        (" 1", 64, None),
        ("1.0", 64, None),
        ("\u0661", 64, None),
    ],
)
def test_decimal_integers_of_bounded_size_are_parsed(text: str, bits: int, expected: int | None) -> None:
    assert parse_integer(text, bits) == expected
