"""Quantities in all their spellings."""

from decimal import Decimal

import pytest

from bridgehead.objects.quantities import MILLI, canonical_quantity, milli_value, parse_quantity, whole_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("1", "1"),
        ("100m", "0.1"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1k", "1000"),
        ("2M", "2000000"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("12E", "12000000000000000000"),
        ("100n", "0.0000001"),
        ("-1", "-1"),
        (4, "4"),
        (0.25, "0.25"),
    ],
)
def test_quantities_are_parsed(text: str | int | float, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "Gi", "1ki", "1e", "--1"])
def test_invalid_quantities_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(text)


def test_quantities_are_rounded_up() -> None:
    assert milli_value("0.0001") == 1
    assert milli_value("250m") == 250
    assert whole_value("1500m") == 2


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("0.05", "50m"),
        (".5", "500m"),
        ("1.25", "1250m"),
        ("1000", "1k"),
        ("100000", "100k"),
        ("128974848", "128974848"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1023", "1023"),
        ("1024", "1024"),
        ("24684092Ki", "24684092Ki"),
        ("2000Ki", "2000Ki"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e2", "1200"),
        ("1E", "1E"),
        ("100E", "9223372036854775807"),
        ("0.1n", "1n"),
        ("-1500m", "-1500m"),
        ("1u", "1u"),
        ("0.1Ki", "102400m"),
        ("1.5Ki", "1536"),
    ],
)
def test_quantities_are_formatted_canonically(text: str, canonical: str) -> None:
    assert canonical_quantity(text) == canonical
    assert canonical_quantity(canonical) == canonical


@pytest.mark.parametrize(("text", "canonical"), [("1n", "1m"), ("-1u", "-1m"), ("1.0001Gi", "1073849199"), ("2", "2")])
def test_quantities_are_rounded_up_to_thousandths(text: str, canonical: str) -> None:
    assert canonical_quantity(text, MILLI) == canonical
