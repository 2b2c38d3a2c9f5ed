"""Which address a pod gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.addresses import PodAddresses
from bridgehead.kubelet.errors import AddressesExhausted


def test_addresses_are_given_in_turn_and_not_again_at_once():
    addresses = PodAddresses("10.244.1.0/24")
    assert addresses.allocate("a") == ("10.244.1.2",)
    assert addresses.allocate("b") == ("10.244.1.3",)
    assert addresses.allocate("a") == ("10.244.1.2",)
    addresses.release("a")
    assert addresses.allocate("c") == ("10.244.1.4",)


def test_a_pod_has_an_address_of_each_family():
    addresses = PodAddresses("10.244.1.0/24", "fd00:10:244:1::/64")
    addresses.claim("old", ("10.244.1.2", "fd00:10:244:1::2"))
    assert addresses.allocate("a") == ("10.244.1.3", "fd00:10:244:1::3")
    addresses.release("old")
    assert [addresses.allocate(str(n)) for n in range(252)][-1] == ("10.244.1.2", "fd00:10:244:1::ff")
    assert len(addresses) == 253


def test_a_range_that_is_full_says_so_until_one_is_freed():
    addresses = PodAddresses("10.244.1.0/29")
    given_out = [addresses.allocate(str(n)) for n in range(5)]
    assert given_out == [(f"10.244.1.{n}",) for n in range(2, 7)]
    with pytest.raises(AddressesExhausted, match=r"no IP addresses available in range set: 10.244.1.0/29"):
        addresses.allocate("one more")
    addresses.release("3")
    assert addresses.allocate("one more") == ("10.244.1.5",)


def test_what_was_found_at_start_stays_taken():
    addresses = PodAddresses("10.244.1.0/24")
    addresses.claim("old", ("10.244.1.7",))
    addresses.claim("foreign", ("192.168.0.1",))
    addresses.claim("of the host", ())
    assert addresses.allocate("old") == ("10.244.1.7",)
    assert addresses.allocate("new") == ("10.244.1.8",)


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=60))
def test_no_two_owners_share_an_address(steps):
    addresses, owners = PodAddresses("10.0.0.0/28", "fd00::/124"), {}
    for owner, is_taken in steps:
        if is_taken:
            owners[owner] = addresses.allocate(owner)
        else:
            addresses.release(owner)
            owners.pop(owner, None)
        given_out = {address for both in owners.values() for address in both}
        assert len(given_out) == 2 * len(owners) == 2 * len(addresses)
        assert not {"10.0.0.0", "10.0.0.1", "10.0.0.15", "fd00::", "fd00::1"} & given_out
