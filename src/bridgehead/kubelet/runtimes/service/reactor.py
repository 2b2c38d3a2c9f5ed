"""A small event loop for a process with one thread: file descriptors and timers.

It is not asyncio's, which may start helper threads: the runtime has one thread only, because it changes the namespaces
of the calling thread (setns(2), unshare(2)) to make sandboxes.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import selectors
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


class Timer:
    """A scheduled call."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Reactor:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._stopping = False

    def watch(self, fd: int, on_readable: Callable[[], object]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, [on_readable, None])

    def watch_writable(self, fd: int, on_writable: Callable[[], None] | None) -> None:
        """Also call `on_writable` when the watched `fd` is writable; None stops that."""
        key = self._selector.get_key(fd)
        key.data[1] = on_writable
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if on_writable else 0)
        self._selector.modify(fd, events, key.data)

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`. Does nothing if it is not watched."""
        try:
            self._selector.unregister(fd)
        except KeyError:
            return

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        timer = Timer(action)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        """Handle events until `stop`."""
        while not self._stopping:
            self.run_once()

    def run_once(self, longest: float | None = None) -> None:
        """Wait for the next event (at most `longest` seconds) and handle what is due."""
        for key, events in self._selector.select(self._time_to_wait(longest)):
            on_readable, on_writable = key.data
            if events & selectors.EVENT_WRITE and on_writable is not None:
                self._call(on_writable)
            if events & selectors.EVENT_READ and self._is_watched(key.fd, key.data):
                self._call(on_readable)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            action = heapq.heappop(self._timers)[2].action
            if action is not None:
                self._call(action)

    def close(self) -> None:
        self._selector.close()

    def _is_watched(self, fd: int, data: object) -> bool:
        """Whether an earlier callback has neither ended the watch nor reused the descriptor number."""
        try:
            return self._selector.get_key(fd).data is data
        except KeyError:
            return False

    def _time_to_wait(self, longest: float | None) -> float | None:
        while self._timers and self._timers[0][2].action is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return longest
        due = max(0.0, self._timers[0][0] - time.monotonic())
        return due if longest is None else min(due, longest)

    @staticmethod
    def _call(action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:  # a failure of one connection or container must not stop the others
            log.exception("unexpected failure in %s", getattr(action, "__qualname__", action))
