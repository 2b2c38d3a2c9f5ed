"""The work queue of every controller: keys in, one reconcile at a time for each key, retries by themselves.

What a reconcile asks for afterwards is an `Outcome`; only this queue waits. A key added while it is being worked on
runs once more afterwards, however often it was added. Time is the event loop's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .errors import ClientError, Conflict, Unreachable

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 0.01
LONGEST_DELAY = 60.0
UNREACHABLE_DELAY = 5.0  # the longest after a try that did not reach the API server, which is not the key's fault


@dataclass(frozen=True)
class Done:
    """Nothing more to do until something changes."""


@dataclass(frozen=True)
class Requeue:
    """All is well; look again after this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Retry:
    """It did not work yet; try again after a delay that doubles each time, up to `longest` or the queue's bound."""

    reason: str
    longest: float = LONGEST_DELAY


Outcome = Done | Requeue | Retry


class WorkQueue(Generic[K]):
    """`name` is what log lines call it. Use from the event loop's thread only."""

    def __init__(self, name: str, *, first_delay: float = FIRST_DELAY, longest_delay: float = LONGEST_DELAY) -> None:
        self.name = name
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()  # in _ready
        self._running: set[K] = set()
        self._again: set[K] = set()  # added while running
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Keys that wait for a worker now; those that wait for their time are not counted."""
        return len(self._waiting) + len(self._again)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is ready, running or waiting for its time."""
        return not (self._waiting or self._running or self._timers)

    def add(self, key: K) -> None:
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key later. Of several times asked for, the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._fire, key)

    async def run(self, reconcile: Callable[[K], Awaitable[Outcome]], workers: int = 4) -> None:
        """Work until cancelled. An exception from `reconcile` counts as Retry."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(self._work(reconcile))
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def _fire(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    async def _work(self, reconcile: Callable[[K], Awaitable[Outcome]]) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._running.add(key)
            try:
                outcome = await self._reconcile(reconcile, key)
            finally:
                self._running.discard(key)
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
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._longest_delay, self._first_delay * 2.0 ** min(failures, 32))

    async def _reconcile(self, reconcile: Callable[[K], Awaitable[Outcome]], key: K) -> Outcome:
        """Run it and log the first failure of a row. The client says by itself when the API server is unreachable."""
        is_first = key not in self._failures
        try:
            return await reconcile(key)
        except (Conflict, Unreachable) as error:
            log.debug("%s %s: %s", self.name, key, error)
            return Retry(str(error), UNREACHABLE_DELAY if isinstance(error, Unreachable) else LONGEST_DELAY)
        except ClientError as error:
            log.log(logging.WARNING if is_first else logging.DEBUG, "%s %s: %s", self.name, key, error)
            return Retry(str(error))
        except Exception as error:  # one bad object must not stop the others
            log.log(logging.ERROR if is_first else logging.DEBUG, "%s %s", self.name, key, exc_info=True)
            return Retry(repr(error))
