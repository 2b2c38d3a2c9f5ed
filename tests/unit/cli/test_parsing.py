"""Parsers of option values."""

from __future__ import annotations

import pytest

from bridgehead.cli.parsing import host_port


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":80", ("", 80)),
        ("10.0.0.1", ("10.0.0.1", 7472)),
        ("10.0.0.1:80", ("10.0.0.1", 80)),
        ("[::1]:80", ("::1", 80)),
        ("[::1]", ("::1", 7472)),
        ("fd00::1", ("fd00::1", 7472)),
    ],
)
def test_an_address_with_a_port(text: str, address: tuple[str, int]) -> None:
    assert host_port(text, 7472) == address


@pytest.mark.parametrize("text", [":x", ":70000", "[::1]:x", "10.0.0.1:-1"])
def test_an_address_with_an_invalid_port(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address with a port"):
        host_port(text, 7472)
