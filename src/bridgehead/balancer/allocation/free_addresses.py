"""The first free address of a range, without a scan of the range.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from bridgehead.balancer.ranges import AddressRange


def subtract(range_: AddressRange, others: Iterable[AddressRange]) -> list[AddressRange]:
    """Return the parts of a range that none of the others contains, in order."""
    parts = [range_]
    for other in others:
        next_parts = []
        for part in parts:
            if not part.overlaps(other):
                next_parts.append(part)
                continue
            if part.first < other.first:
                next_parts.append(AddressRange(part.version, part.first, other.first - 1))
            if other.last < part.last:
                next_parts.append(AddressRange(part.version, other.last + 1, part.last))
        parts = next_parts
    return parts


class FreeAddresses:
    """The free addresses of one range. `is_taken(number)`: the address is in use, or never given out.

    Every number below `_next` was taken when it was passed. Numbers that became free since are in the heap `_released`,
    in which numbers that are taken again stay until they come to its top.
    """

    def __init__(self, range_: AddressRange, is_taken: Callable[[int], bool]) -> None:
        self._range = range_
        self._is_taken = is_taken
        self._next = range_.first
        self._released: list[int] = []
        self._in_heap: set[int] = set()

    def first(self) -> int | None:
        """Return the lowest free number; None if there is none."""
        while self._released:
            if not self._is_taken(self._released[0]):
                return self._released[0]
            self._in_heap.discard(heapq.heappop(self._released))
        while self._next <= self._range.last:
            if not self._is_taken(self._next):
                return self._next
            self._next += 1
        return None

    def release(self, number: int) -> None:
        """Record that a number of the range became free."""
        if number < self._next and number not in self._in_heap:
            self._in_heap.add(number)
            heapq.heappush(self._released, number)
