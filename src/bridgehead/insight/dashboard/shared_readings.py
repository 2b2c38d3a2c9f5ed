"""Readings of the API and of kernels that several pages share: each is made once, and kept for a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

_MOST = 64  # readings that are kept


class SharedReadings(Generic[Value]):
    """Answers by key: a reading that is under way, or ended less than `seconds` ago, is shared by all who ask."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._tasks: dict[Hashable, asyncio.Task[Value]] = {}
        self._ended: dict[Hashable, float] = {}

    async def get(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Return the answer for a key, from `read` if there is no recent one. Errors are shared, but not kept."""
        task = self._tasks.get(key)
        if task is None or (task.done() and not self._is_recent(key, task)):
            self._tasks.pop(key, None)
            task = self._tasks[key] = asyncio.create_task(read())
            self._ended.pop(key, None)
            task.add_done_callback(lambda done: self._on_done(key, done))
            while len(self._tasks) > _MOST:
                oldest = next(iter(self._tasks))
                self._tasks.pop(oldest)
                self._ended.pop(oldest, None)
        return await asyncio.shield(task)  # others may wait for it when this one no longer does

    def _is_recent(self, key: Hashable, task: asyncio.Task[Value]) -> bool:
        if task.cancelled() or task.exception() is not None:
            return False
        now = self._clock()
        return now - self._ended.get(key, now) < self._seconds  # without a time it has ended just now

    def _on_done(self, key: Hashable, task: asyncio.Task[Value]) -> None:
        if self._tasks.get(key) is task:
            self._ended[key] = self._clock()
        if not task.cancelled():
            task.exception()  # it was retrieved, even if nobody waits any more
