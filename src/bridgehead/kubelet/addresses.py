"""Addresses of a node's pods: which are taken, which is given next. Pure.

Held by the agent, which rebuilds it from the runtime's sandboxes at start. Addresses are given in turn, so that one
that was freed is not given again while clients and connection tracking may still remember its last owner.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from .errors import AddressesExhausted


class PodAddresses:
    """The pod ranges of one node, one of each family: each pod has an address of each."""

    def __init__(self, *cidrs: str) -> None:
        """Raises ValueError for what is no network."""
        self._ranges = [_Range(cidr) for cidr in cidrs]

    def claim(self, owner: str, addresses: tuple[str, ...]) -> None:
        """Note that `owner` has these already. One outside the ranges is somebody else's business."""
        for address in addresses:
            for each in self._ranges:
                each.claim(owner, ip_address(address))

    def allocate(self, owner: str) -> tuple[str, ...]:
        """The addresses of `owner`, in the ranges' order: those it has, or the next free ones.

        Raises `AddressesExhausted`.
        """
        return tuple(str(each.allocate(owner)) for each in self._ranges)

    def release(self, owner: str) -> None:
        """`owner` is gone. Fine if it had nothing."""
        for each in self._ranges:
            each.release(owner)

    def __len__(self) -> int:
        """How many pods have addresses."""
        return max(map(len, self._ranges), default=0)


class _Range:
    """One range. The network's first two addresses and IPv4's broadcast are never given."""

    def __init__(self, cidr: str) -> None:
        self._network: IPv4Network | IPv6Network = ip_network(cidr)
        reserved_last = 1 if self._network.version == 4 else 0
        self._count = max(self._network.num_addresses - 2 - reserved_last, 0)
        self._owners: dict[IPv4Address | IPv6Address, str] = {}
        self._addresses: dict[str, IPv4Address | IPv6Address] = {}
        self._next = 0

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
