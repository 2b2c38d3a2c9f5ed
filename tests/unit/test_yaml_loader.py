"""Scalars of manifests."""

from __future__ import annotations

import pytest

from bridgehead.yaml_loader import UnusableYaml, load_object


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30", "12:30"),
        ("1:30:00.5", "1:30:00.5"),
        ("2001-01-01", "2001-01-01"),
        ("0x_", "0x_"),
        ("1.2.3", "1.2.3"),
        ("017", 15),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-3", -3),
        ("08", 8.0),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("yes", True),
        ("~", None),
    ],
)
def test_scalars_are_read_as_by_the_library_of_kubernetes(text: str, value: object) -> None:
    found = load_object(f"value: {text}".encode())["value"]
    assert (found, type(found)) == (value, type(value))


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(UnusableYaml, match="digits"):
        load_object(b"value: " + b"1" * 5000)
