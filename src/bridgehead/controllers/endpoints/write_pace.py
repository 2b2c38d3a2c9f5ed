"""Limit on the rate of writes for each Service, as pods become ready one after another.

The first change is written at once, later ones at most ten times a second, since every node reads and programs every
write. Used by the Endpoints and the EndpointSlice controller.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.client import WorkQueue
from bridgehead.objects.meta import ObjectKey

PERIOD = 0.1  # seconds


class Pace:
    """Adds keys to `queue`. `period` is in seconds; `clock` returns seconds since an arbitrary start."""

    def __init__(self, queue: WorkQueue[ObjectKey], clock: Callable[[], float], period: float = PERIOD) -> None:
        self._queue = queue
        self._clock = clock
        self._period = period
        self._written: dict[ObjectKey, float] = {}

    def add(self, key: ObjectKey, urgent: bool) -> None:
        """Queue the key: now if `urgent`, else a period after its last write."""
        written = self._written.get(key)
        wait = 0.0 if written is None else written + self._period - self._clock()
        if urgent or wait <= 0:
            self._written.pop(key, None)
            self._queue.add(key)
        else:
            self._queue.add_after(key, wait)

    def record_write(self, key: ObjectKey) -> None:
        """Record that a write for the key was made now."""
        self._written[key] = self._clock()

    def forget(self, key: ObjectKey) -> None:
        self._written.pop(key, None)
