"""Interfaces on which addresses are announced."""

from __future__ import annotations

import pytest

from bridgehead.balancer.layer2.interfaces import DEFAULT_EXCLUDED, is_announced_on, usable_links
from bridgehead.network.link_states import Link

ETH0 = Link(2, "eth0", b"\2\0\0\0\0\1", 0, transmits=True, resolves=True)
ANY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("link", "wanted", "is_usable"),
    [
        (ETH0, ANY, True),
        (ETH0, frozenset({"eth0"}), True),
        (ETH0, frozenset({"eth1"}), False),
        (ETH0._replace(mac=b""), ANY, False),  # a tunnel
        (ETH0._replace(transmits=False), ANY, False),
        (ETH0._replace(resolves=False), ANY, False),
        (ETH0._replace(master=5), ANY, False),  # the port of a bridge
        (ETH0._replace(master=5), frozenset({"eth0"}), False),
        (ETH0._replace(name="veth12"), ANY, False),
        (ETH0._replace(name="veth12"), frozenset({"veth12"}), True),  # named, so meant
        (ETH0._replace(name="lo"), ANY, False),
        (ETH0._replace(name="lo0"), ANY, True),
    ],
)
def test_the_usable_links(link, wanted, is_usable):
    assert usable_links([link], wanted, DEFAULT_EXCLUDED) == ({link.number: link} if is_usable else {})


def test_advertisements_may_name_their_interfaces():
    assert is_announced_on(frozenset(), ETH0)
    assert is_announced_on(frozenset({"eth0"}), ETH0)
    assert not is_announced_on(frozenset({"eth1"}), ETH0)
