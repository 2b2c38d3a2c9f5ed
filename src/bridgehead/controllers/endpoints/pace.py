"""A Service whose pods come up one after another is not written for each: the first at once, then a few times a second.

Used by the endpoints and the endpoint slice controller. Every write is read and programmed by every node.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.client import WorkQueue
from bridgehead.objects.meta import ObjectKey

PERIOD = 0.1


class Pace:
    """Feeds `queue`. `period` is in seconds; `clock` gives seconds from any beginning."""

    def __init__(self, queue: WorkQueue[ObjectKey], clock: Callable[[], float], period: float = PERIOD) -> None:
        self._queue = queue
        self._clock = clock
        self._period = period
        self._written: dict[ObjectKey, float] = {}

    def add(self, key: ObjectKey, urgent: bool) -> None:
        """Queue the key: now, or unless that is urgent, a period after its last write."""
        written = self._written.get(key)
        wait = 0.0 if written is None else written + self._period - self._clock()
        if urgent or wait <= 0:
            self._written.pop(key, None)
            self._queue.add(key)
        else:
            self._queue.add_after(key, wait)

    def wrote(self, key: ObjectKey) -> None:
        """Something was written for the key just now."""
        self._written[key] = self._clock()

    def forget(self, key: ObjectKey) -> None:
        self._written.pop(key, None)
