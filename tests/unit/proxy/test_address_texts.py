"""Addresses and ranges in one spelling, and what is none."""

from __future__ import annotations

import pytest

from bridgehead.proxy.address_texts import canonical_address, canonical_cidr


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"), ("10.0.0.01", None), ("10.0.0", None), ("", None), ("10.0.0.1\n", None),
        ("FD00::0:1", "fd00::1"), ("fe80::1%eth0", None), ("::ffff:10.0.0.1", None), ("::1", "::1"),
        ("::10.0.0.1", None),
        ("١٠.0.0.1", None),
    ],
)  # fmt: skip
def test_addresses_are_canonical(text: str, canonical: str | None) -> None:
    assert canonical_address(text) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.1.2.3/8", "10.0.0.0/8"), ("10.0.0.0", None), ("10.0.0.0/33", None), ("fd00::1/64", "fd00::/64"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/8"), ("/8", None), ("10.0.0.0/", None),
    ],
)  # fmt: skip
def test_cidrs_are_canonical(text: str, canonical: str | None) -> None:
    assert canonical_cidr(text) == canonical
