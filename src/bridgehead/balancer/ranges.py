"""Ranges of IP addresses.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import Literal, NamedTuple

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRange(NamedTuple):
    """The addresses of one family from `first` to `last`, both included, as numbers."""

    version: Literal[4, 6]
    first: int
    last: int

    def __contains__(self, address: object) -> bool:
        return (
            isinstance(address, ipaddress.IPv4Address | ipaddress.IPv6Address)
            and address.version == self.version
            and self.first <= int(address) <= self.last
        )

    def __str__(self) -> str:
        make = ipaddress.IPv4Address if self.version == 4 else ipaddress.IPv6Address
        return f"{make(self.first)}-{make(self.last)}"

    def overlaps(self, other: AddressRange) -> bool:
        return self.version == other.version and self.first <= other.last and other.first <= self.last

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def parse_address(text: str) -> IpAddress:
    """Parse an address without a zone (fe80::1%eth0), which only one machine would understand. Raises ValueError."""
    address = ipaddress.ip_address(text.strip())
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise ValueError(f"{text!r} has a zone")
    return address


@functools.lru_cache(maxsize=4096)  # the ranges of all nodes' pods are parsed again when one Node changes
def parse_range(text: str) -> AddressRange:
    """Parse `10.0.0.0/24` or `10.0.0.10-10.0.0.50`. Raises ValueError with the reason.

    Source: MetalLB, spec.addresses of an IPAddressPool; a bare address is refused there.
    """
    first_text, dash, last_text = text.partition("-")
    if dash:
        try:
            first, last = parse_address(first_text), parse_address(last_text)
        except ValueError:
            raise ValueError(f'invalid IP range "{text}"') from None
        if first.version != last.version:
            raise ValueError(f'invalid IP range "{text}": start and end are of different families')
        if int(first) > int(last):
            raise ValueError(f'invalid IP range "{text}": start {first} is after end {last}')
        return AddressRange(first.version, int(first), int(last))
    _, slash, length = text.strip().partition("/")
    if not slash:
        raise ValueError(f"invalid CIDR address: {text}; a single address is written with /32 or /128")
    if not (length.isascii() and length.isdigit()):  # the library reads 0.0.0.255 as 255.255.255.0
        raise ValueError(f'invalid CIDR address: "{text}"')
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(f'invalid CIDR address: "{text}"') from None
    return AddressRange(network.version, int(network.network_address), int(network.broadcast_address))


def address_of(version: Literal[4, 6], number: int) -> IpAddress:
    """Return the address with this number."""
    return ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number)
