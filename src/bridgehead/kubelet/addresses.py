"""Addresses of a node's pods: which are taken, which is given next. Pure.

Held by the agent, which rebuilds it from the runtime's sandboxes at start. Addresses are given in turn, so that one
that was freed is not given again while clients and connection tracking may still remember its last owner.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from .errors import AddressesExhausted


class PodAddresses:
    """The pod range of one node. The network's first two addresses and IPv4's broadcast are never given."""

    def __init__(self, cidr: str) -> None:
        """Raises ValueError for what is no network."""
        self._network: IPv4Network | IPv6Network = ip_network(cidr)
        reserved_last = 1 if self._network.version == 4 else 0
        self._count = max(self._network.num_addresses - 2 - reserved_last, 0)
        self._owners: dict[IPv4Address | IPv6Address, str] = {}
        self._addresses: dict[str, IPv4Address | IPv6Address] = {}
        self._next = 0

    def claim(self, owner: str, address: str) -> None:
        """Note that `owner` has `address` already. One outside the range is somebody else's business."""
        value = ip_address(address)
        if value in self._network:
            self._owners[value] = owner
            self._addresses[owner] = value
            self._next = max(self._next, int(value) - int(self._network.network_address) - 1)

    def allocate(self, owner: str) -> str:
        """The address of `owner`: the one it has, or the next free one. Raises `AddressesExhausted`."""
        if owner in self._addresses:
            return str(self._addresses[owner])
        if len(self._owners) >= self._count:
            raise AddressesExhausted(f"no IP addresses available in range set: {self._network}")
        while True:
            value = self._network.network_address + 2 + self._next % self._count
            self._next = (self._next + 1) % self._count
            if value not in self._owners:
                self._owners[value] = owner
                self._addresses[owner] = value
                return str(value)

    def release(self, owner: str) -> None:
        """`owner` is gone. Fine if it had nothing."""
        value = self._addresses.pop(owner, None)
        if value is not None:
            self._owners.pop(value, None)

    def __len__(self) -> int:
        return len(self._owners)
