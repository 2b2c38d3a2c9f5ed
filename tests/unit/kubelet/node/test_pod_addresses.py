"""The address that a pod gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.errors import AddressesExhausted
from bridgehead.kubelet.node.last_addresses import read_last_addresses, write_last_addresses
from bridgehead.kubelet.node.pod_addresses import PodAddresses


def test_addresses_are_allocated_in_turn_and_not_reused_at_once():
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


def test_an_exhausted_range_raises_until_a_release():
    addresses = PodAddresses("10.244.1.0/29")
    given_out = [addresses.allocate(str(n)) for n in range(5)]
    assert given_out == [(f"10.244.1.{n}",) for n in range(2, 7)]
    with pytest.raises(AddressesExhausted, match=r"no IP addresses available in range set: 10.244.1.0/29"):
        addresses.allocate("one more")
    addresses.release("3")
    assert addresses.allocate("one more") == ("10.244.1.5",)


def test_addresses_found_at_the_start_are_reserved():
    addresses = PodAddresses("10.244.1.0/24")
    addresses.claim("old", ("10.244.1.7",))
    addresses.claim("foreign", ("192.168.0.1",))
    addresses.claim("of the host", ())
    assert addresses.allocate("old") == ("10.244.1.7",)
    assert addresses.allocate("new") == ("10.244.1.8",)


def test_a_restarted_kubelet_continues_after_the_last_address(tmp_path):
    before = PodAddresses("10.244.1.0/24", "fd00:10:244:1::/64")
    for n in range(5):
        before.allocate(str(n))
    write_last_addresses(tmp_path, before.last)
    restarted = PodAddresses("10.244.1.0/24", "fd00:10:244:1::/64")
    restarted.claim("0", ("10.244.1.2", "fd00:10:244:1::2"))  # all others have ended meanwhile
    restarted.continue_after(read_last_addresses(tmp_path))
    assert restarted.allocate("new") == ("10.244.1.7", "fd00:10:244:1::7")


def test_allocation_wraps_at_the_end_of_the_range(tmp_path):
    addresses = PodAddresses("10.244.1.0/29")
    addresses.continue_after(["10.244.1.6", "192.168.0.1", "nonsense"])
    assert addresses.last == ("10.244.1.6",)
    assert addresses.allocate("a") == ("10.244.1.2",)
    assert read_last_addresses(tmp_path) == ()


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
