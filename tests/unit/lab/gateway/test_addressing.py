"""Names and addresses of a gateway's links."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.lab.gateway.addressing import LAB_PAIRS, OUTSIDE, choose_pairs, name_link


@pytest.mark.parametrize(
    ("lab", "link"),
    [("dev", "bh-dev"), ("twelve-chars", "bh-twelve-chars"), ("thirteen-char", "bh-thirtee-3adc")],
)
def test_the_link_has_the_labs_name_as_far_as_the_kernel_allows(lab: str, link: str) -> None:
    assert name_link(lab) == link


def test_labs_with_long_names_have_different_links() -> None:
    assert name_link("a-long-name-of-a-lab-1") != name_link("a-long-name-of-a-lab-2")


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True))
def test_names_and_addresses_are_possible_for_every_lab(lab: str) -> None:
    assert len(name_link(lab)) <= 15
    pairs = choose_pairs(lab, (4, 6), ())
    assert pairs is not None
    for pair in pairs:
        assert [str(pair.network[number]) for number in (1, 2)] == [pair.near, pair.far]
    # Neither the metadata services of clouds, nor what RFC 3927 reserves, nor the gateway's other networks.
    assert pairs[0].network.subnet_of(ip_network("169.254.192.0/18"))  # type: ignore[arg-type]
    assert not pairs[0].network.subnet_of(ip_network("169.254.255.0/24"))  # type: ignore[arg-type]
    for other in (LAB_PAIRS[4].network, ip_network(OUTSIDE[4].network)):
        assert not pairs[0].network.overlaps(other)


def test_addresses_that_the_machine_has_are_not_chosen() -> None:
    first = choose_pairs("dev", (4, 6), ())
    assert first is not None
    for number in (0, 1):
        second = choose_pairs("dev", (4, 6), [ip_network("0.0.0.0/0"), first[number].network])
        assert second is not None
        assert second[0] != first[0]
        assert second[1] != first[1]
    assert choose_pairs("dev", (4, 6), [ip_network("169.254.0.0/16"), ip_network("128.0.0.0/1")]) == first
    assert choose_pairs("dev", (4, 6), [ip_network("169.254.192.0/18")]) is None
    assert choose_pairs("dev", (6,), [ip_network("169.254.192.0/18")]) == (first[1],)
