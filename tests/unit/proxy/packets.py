"""The first packet of a connection and its outcomes, for the walkers in `iptables/` and `nftables/packets.py`.

A walker follows what is left to chance, and what a client did before, in every direction. Its answer is therefore a
set: outcomes below, and the backends that the packet can be sent to.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address, ip_network

import msgspec

REJECTED, DROPPED, UNTOUCHED = "rejected", "dropped", "untouched"


class Packet(msgspec.Struct, frozen=True):
    """The first packet of a connection to a protocol and port of an address."""

    address: str
    protocol: str
    port: int
    source: str
    is_from_node: bool = False
    is_to_node: bool = False


@lru_cache(maxsize=4096)
def is_in(address: str, ranges: str) -> bool:
    """Return whether the address is in one of the ranges, which ", " separates."""
    return any(ip_address(address) in ip_network(text) for text in ranges.split(", "))
