"""Tests of `shared.addresses`: the pattern of ordinary addresses knows none that the checks refuse."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.resources.shared.address_rules import check_ip, check_not_special, is_ordinary_ipv4

SPECIAL = ("0.0.0.0", "127.0.0.0", "127.255.255.255", "169.254.0.0", "169.254.255.255", "224.0.0.0", "224.0.0.255")
NEIGHBOURS = (
    "0.0.0.1",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "223.255.255.255",
    "224.0.1.0",
    "255.255.255.255",
    "27.0.0.1",
    "10.127.0.1",
)
IPV4 = st.integers(0, 2**32 - 1).map(lambda number: str(IPv4Address(number)))
NEAR = st.sampled_from(SPECIAL + NEIGHBOURS)


@given(IPV4 | NEAR | st.text("0123456789.:", max_size=16))
def test_ordinary_addresses_are_those_that_no_check_refuses(text: str) -> None:
    ordinary = "." in text and ":" not in text and not check_ip(text) and not check_not_special(text)
    assert bool(is_ordinary_ipv4(text)) == ordinary


@pytest.mark.parametrize("text", SPECIAL)
def test_special_addresses_are_not_ordinary(text: str) -> None:
    assert not is_ordinary_ipv4(text)


@pytest.mark.parametrize("text", NEIGHBOURS)
def test_their_neighbours_are_ordinary(text: str) -> None:
    assert is_ordinary_ipv4(text)
