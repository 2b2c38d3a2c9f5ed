"""Work queue of a controller: keys, one reconcile at a time for each key, retries with exponential back-off.

A reconcile returns an `Outcome`; only the queue waits. A key that is added during its reconcile is reconciled once more
afterwards, however often it was added. Times are of the event loop's clock.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bridgehead.backoff import delay_after

from .errors import ClientError, Conflict, Unreachable
from .metrics import CLIENT_METRICS

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 0.01
LONGEST_DELAY = 60.0
UNREACHABLE_DELAY = 5.0  # the longest while the API server is unreachable, which is not the fault of the key


@dataclass(frozen=True)
class Done:
    """The key is reconciled until something changes."""


@dataclass(frozen=True)
class Requeue:
    """Success; reconcile the key again after this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Retry:
    """Failure; reconcile the key again with back-off, at most `longest` seconds or the queue's bound later."""

    reason: str
    longest: float = LONGEST_DELAY


Outcome = Done | Requeue | Retry


class WorkQueue(Generic[K]):
    """A queue of keys. `name` is used in log lines. Use from the event loop's thread only.

    Keys that wait for a worker are reconciled in the order of their `rank`, lowest first; of one rank, in that of their
    arrival.
    """

    def __init__(
        self,
        name: str,
        *,
        first_delay: float = FIRST_DELAY,
        longest_delay: float = LONGEST_DELAY,
        rank: Callable[[K], int] = lambda key: 0,
    ) -> None:
        self.name = name
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._rank = rank
        self._arrivals = itertools.count()
        self._ready: asyncio.PriorityQueue[tuple[int, int, K]] = asyncio.PriorityQueue()  # by rank and arrival
        self._waiting: dict[K, float] = {}  # the keys in `_ready`, and since when
        self._running: set[K] = set()
        self._again: set[K] = set()  # added during their reconcile
        # The time is kept beside the handle: uvloop's handle of a delay below half a millisecond has no `when`.
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        self._failures: dict[K, int] = {}
        CLIENT_METRICS.record_queue(name)

    def __len__(self) -> int:
        """Number of keys that wait for a worker; delayed keys are not counted."""
        return len(self._waiting) + len(self._again)

    def add(self, key: K) -> None:
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = time.perf_counter()
            CLIENT_METRICS.record_add(self.name)
            self._ready.put_nowait((self._rank(key), next(self._arrivals), key))

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key after a delay. The earliest of several times counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if key in self._timers:
            earlier, timer = self._timers[key]
            if earlier <= when:
                return
            timer.cancel()
        self._timers[key] = when, loop.call_at(when, self._fire, key)

    async def run(self, reconcile: Callable[[K], Awaitable[Outcome]], workers: int = 4) -> None:
        """Reconcile keys until cancelled. An exception of `reconcile` counts as Retry."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._work(reconcile))
        finally:
            for _, timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def _fire(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    async def _work(self, reconcile: Callable[[K], Awaitable[Outcome]]) -> None:
        while True:
            _, _, key = await self._ready.get()
            began = time.perf_counter()
            CLIENT_METRICS.record_start(self.name, began - self._waiting.pop(key, began))
            self._running.add(key)
            try:
                outcome = await self._reconcile(reconcile, key)
            finally:
                self._running.discard(key)
            CLIENT_METRICS.record_end(self.name, time.perf_counter() - began, is_retry=isinstance(outcome, Retry))
            match outcome:
                case Retry(_, longest):
                    self.add_after(key, min(longest, self._next_delay(key)))
                case Requeue(seconds):
                    self._failures.pop(key, None)
                    self.add_after(key, seconds)
                case Done():
                    self._failures.pop(key, None)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    def _next_delay(self, key: K) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return delay_after(failures, self._first_delay, self._longest_delay)

    async def _reconcile(self, reconcile: Callable[[K], Awaitable[Outcome]], key: K) -> Outcome:
        """Reconcile a key. The first of several failures in a row is logged; the client logs an unreachable API
        server."""
        is_first = key not in self._failures
        try:
            return await reconcile(key)
        except (Conflict, Unreachable) as error:
            log.debug("%s %s: %s", self.name, key, error)
            return Retry(str(error), UNREACHABLE_DELAY if isinstance(error, Unreachable) else LONGEST_DELAY)
        except ClientError as error:
            log.log(logging.WARNING if is_first else logging.DEBUG, "%s %s: %s", self.name, key, error)
            return Retry(str(error))
        except Exception as error:  # one object must not stop the others
            log.log(logging.ERROR if is_first else logging.DEBUG, "%s %s", self.name, key, exc_info=True)
            return Retry(repr(error))
