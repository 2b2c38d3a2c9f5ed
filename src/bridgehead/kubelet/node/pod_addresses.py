"""Allocation of the addresses of a node's pods.

Pure: no I/O, no clock, no randomness. The kubelet rebuilds the allocations from the runtime's sandboxes at start, and
their order from `last_addresses`. Addresses are allocated in turn, so that a released one is not used again while
clients and connection tracking may still know its last owner.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from bridgehead.kubelet.errors import AddressesExhausted


class PodAddresses:
    """The pod ranges of one node, one for each address family. Each pod gets an address from each range."""

    def __init__(self, *cidrs: str) -> None:
        """Raises ValueError for a malformed CIDR."""
        self._ranges = [_Range(cidr) for cidr in cidrs]

    def claim(self, owner: str, addresses: tuple[str, ...]) -> None:
        """Record that `owner` has these addresses already. Addresses outside the ranges are ignored."""
        for address in addresses:
            for each in self._ranges:
                each.claim(owner, ip_address(address))

    def allocate(self, owner: str) -> tuple[str, ...]:
        """Return the addresses of `owner`, in the order of the ranges: the present ones, or the next free ones.

        Raises `AddressesExhausted`.
        """
        return tuple(str(each.allocate(owner)) for each in self._ranges)

    def release(self, owner: str) -> None:
        """Release the addresses of `owner`, if it has any."""
        for each in self._ranges:
            each.release(owner)

    @property
    def last(self) -> tuple[str, ...]:
        """The addresses that were allocated last, in the order of the ranges."""
        return tuple(str(each.last) for each in self._ranges)

    def continue_after(self, last: Iterable[str]) -> None:
        """Continue the turn of each range after its address in `last`. Addresses outside the ranges are ignored."""
        for text in last:
            with contextlib.suppress(ValueError):
                address = ip_address(text)
                for each in self._ranges:
                    each.continue_after(address)

    def __len__(self) -> int:
        """Return the number of pods that have addresses."""
        return max(map(len, self._ranges), default=0)


class _Range:
    """A range of addresses. The first two of the network and IPv4's broadcast address are never allocated."""

    def __init__(self, cidr: str) -> None:
        self._network: IPv4Network | IPv6Network = ip_network(cidr)
        reserved_last = 1 if self._network.version == 4 else 0
        self._count = max(self._network.num_addresses - 2 - reserved_last, 0)
        self._owners: dict[IPv4Address | IPv6Address, str] = {}
        self._addresses: dict[str, IPv4Address | IPv6Address] = {}
        self._next = 0

    @property
    def last(self) -> IPv4Address | IPv6Address:
        return self._network.network_address + 2 + (self._next - 1) % max(self._count, 1)

    def continue_after(self, address: IPv4Address | IPv6Address) -> None:
        if address in self._network:
            self._next = int(address) - int(self._network.network_address) - 1

    def claim(self, owner: str, address: IPv4Address | IPv6Address) -> None:
        if address in self._network:
            self._owners[address] = owner
            self._addresses[owner] = address
            self._next = max(self._next, int(address) - int(self._network.network_address) - 1)

    def allocate(self, owner: str) -> IPv4Address | IPv6Address:
        if owner in self._addresses:
            return self._addresses[owner]
        if len(self._owners) >= self._count:
            raise AddressesExhausted(f"no IP addresses available in range set: {self._network}")
        while True:
            address = self._network.network_address + 2 + self._next % self._count
            self._next = (self._next + 1) % self._count
            if address not in self._owners:
                self._owners[address] = owner
                self._addresses[owner] = address
                return address

    def release(self, owner: str) -> None:
        address = self._addresses.pop(owner, None)
        if address is not None:
            self._owners.pop(address, None)

    def __len__(self) -> int:
        return len(self._owners)
