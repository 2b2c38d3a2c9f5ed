"""The addresses of one pool: how many it has, how many are in use, and the first one that a Service can have.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.balancer.compiled_configuration import Pool
from bridgehead.balancer.ranges import AddressRange, IpAddress, address_of

from .address_requests import Request, Version
from .address_usage import AddressUsage
from .free_addresses import FreeAddresses, subtract

_BUGGY_LAST_BYTES = (0, 255)


def is_buggy(version: int, number: int) -> bool:
    """Whether an address ends in .0 or .255, which some devices take for a network's or broadcast address."""
    return version == 4 and number % 256 in _BUGGY_LAST_BYTES


def usable_size(range_: AddressRange, avoid_buggy: bool) -> int:
    """Return the number of addresses of a range, without those that end in .0 or .255 if they are to be avoided."""
    if not avoid_buggy or range_.version == 6:
        return range_.size

    def with_last_byte(byte: int) -> int:
        """Return how many numbers from 0 to `last` end in the byte, minus those before `first`."""
        return (range_.last - byte) // 256 - (range_.first - 1 - byte) // 256

    return range_.size - sum(with_last_byte(byte) for byte in _BUGGY_LAST_BYTES)


class PoolAddresses:
    """The addresses that a pool gives out: its ranges, without those that belong to other pools.

    `foreign`: ranges of other pools; they count for a fallback pool.
    """

    def __init__(self, pool: Pool, usage: AddressUsage, foreign: Iterable[AddressRange] = ()) -> None:
        self.pool = pool
        self._usage = usage
        others = list(foreign)
        self._ranges = [part for range_ in pool.ranges for part in subtract(range_, others)]
        self._free = [self._free_addresses(range_) for range_ in self._ranges]
        self.in_use: dict[int, int] = {4: 0, 6: 0}  # addresses held by Services, by version

    def _free_addresses(self, range_: AddressRange) -> FreeAddresses:
        version, avoid_buggy, usage = range_.version, self.pool.avoid_buggy_ips, self._usage

        def is_taken(number: int) -> bool:
            return usage.is_used(version, number) or (avoid_buggy and is_buggy(version, number))

        return FreeAddresses(range_, is_taken)

    def __contains__(self, address: object) -> bool:
        """Whether the pool gives out the address."""
        return any(address in range_ for range_ in self._ranges) and not (
            self.pool.avoid_buggy_ips and isinstance(address, IpAddress) and is_buggy(address.version, int(address))
        )

    def capacity(self, version: int) -> int:
        """Return the number of addresses of a version that the pool can give out."""
        avoid_buggy = self.pool.avoid_buggy_ips
        return sum(usable_size(range_, avoid_buggy) for range_ in self._ranges if range_.version == version)

    def first(self, version: Version, request: Request, shareable: Iterable[tuple[int, int]]) -> IpAddress | None:
        """Return the first address of a version that is free, or that the Service may share."""
        numbers = [number for other, number in shareable if other == version]
        for range_, free in zip(self._ranges, self._free, strict=True):
            if range_.version != version:
                continue
            found = [number for number in numbers if range_.first <= number <= range_.last]
            unused = free.first()
            if unused is not None:
                found.append(unused)
            if found:
                return address_of(version, min(found))
        return None

    def release(self, address: IpAddress) -> None:
        """Record that nobody uses the address any more."""
        for range_, free in zip(self._ranges, self._free, strict=True):
            if address in range_:
                free.release(int(address))
