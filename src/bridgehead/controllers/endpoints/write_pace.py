"""Limit on the rate of writes for each Service, as pods become ready one after another.

The first change is written at once, and later ones a period after the last write, since every node reads and programs
every write. While changes go on, as in the rollout of many pods, the period grows to the half second that is the
default of kube-controller-manager (`--endpointslice-updates-batch-period`). Used by the Endpoints and the
EndpointSlice controller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bridgehead.client import WorkQueue
from bridgehead.objects.meta import ObjectKey

PERIOD, LONGEST_PERIOD = 0.1, 0.5  # seconds


class _Write(NamedTuple):
    """The last write for a key: when it was, and the period after it."""

    at: float
    period: float


class Pace:
    """Adds keys to `queue`. `period` is the first one, in seconds; `clock` returns seconds since an arbitrary start."""

    def __init__(self, queue: WorkQueue[ObjectKey], clock: Callable[[], float], period: float = PERIOD) -> None:
        self._queue = queue
        self._clock = clock
        self._period = period
        self._written: dict[ObjectKey, _Write] = {}
        self._delayed: set[ObjectKey] = set()  # keys with changes since their last write that wait for their period

    def add(self, key: ObjectKey, urgent: bool) -> None:
        """Queue the key: now if `urgent`, else a period after its last write."""
        written = self._written.get(key)
        wait = 0.0 if written is None else written.at + written.period - self._clock()
        if wait > 0 and not urgent:
            self._delayed.add(key)
            self._queue.add_after(key, wait)
            return
        if not urgent and key not in self._delayed:
            self._written.pop(key, None)  # nothing has changed for a period
        self._queue.add(key)

    def record_write(self, key: ObjectKey) -> None:
        """Record that a write for the key was made now."""
        written, period = self._written.get(key), self._period
        if written is not None and key in self._delayed:
            period = min(2 * written.period, max(LONGEST_PERIOD, self._period))
        self._delayed.discard(key)
        self._written[key] = _Write(self._clock(), period)

    def forget(self, key: ObjectKey) -> None:
        self._written.pop(key, None)
        self._delayed.discard(key)
