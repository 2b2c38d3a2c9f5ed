"""Times of gratuitous announcements of addresses.

Each address that this node takes over is announced at once and again after each of `BURST_SECONDS`, since packets get
lost and switches learn slowly; then in each `REFRESH_SECONDS`, since a switch forgets a MAC address sooner than
neighbours forget an address. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from bridgehead.balancer.detection.engine import NEVER

BURST_SECONDS: Final = (0.0, 0.05, 0.2, 1.1)  # since the beginning
REFRESH_SECONDS: Final = 45.0

Item = TypeVar("Item", bound=Hashable)


class Due(NamedTuple, Generic[Item]):
    """An announcement to send. `is_last`: of its burst, or a refresh; duplicates are looked for then."""

    item: Item
    is_last: bool


class Schedule(Generic[Item]):
    """The times of the announcements of `Item`s. The caller's clock, in seconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Item, int]] = []  # time, generation, item, number in the burst
        self._generations: dict[Item, int] = {}
        self._count = 0

    def begin(self, items: Iterable[Item], now: float) -> None:
        """Announce from now on, with a new burst."""
        for item in items:
            self._count += 1
            self._generations[item] = self._count
            heapq.heappush(self._heap, (now, self._count, item, 0))

    def stop(self, item: Item) -> None:
        """Announce no more."""
        self._generations.pop(item, None)

    def next_deadline(self) -> float:
        """Return the time of the next announcement, infinity without one."""
        while self._heap and self._is_old(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def due(self, now: float, limit: int) -> list[Due[Item]]:
        """Return up to `limit` announcements whose time has come, the earliest first, and plan the next of each."""
        found: list[Due[Item]] = []
        while len(found) < limit and self.next_deadline() <= now:
            planned, generation, item, number = heapq.heappop(self._heap)
            is_last = number + 1 >= len(BURST_SECONDS)
            found.append(Due(item, is_last))
            if is_last:
                following = now + REFRESH_SECONDS
            else:
                # The distance between two, even if the first of them was late.
                following = max(planned, now) + BURST_SECONDS[number + 1] - BURST_SECONDS[number]
            heapq.heappush(self._heap, (following, generation, item, number + 1))
        return found

    def _is_old(self, entry: tuple[float, int, Item, int]) -> bool:
        _, generation, item, _ = entry
        return self._generations.get(item) != generation
