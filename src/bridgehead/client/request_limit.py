"""Limit of a client's requests that are under way at the same time, and so of its connections. Used by `transport`.

HTTP/1.1 carries one request at a time on a connection, and a new connection costs both sides as much processor time as
a request. Hundreds of requests at once, as of a kubelet whose pods start together, therefore share a few lanes. There
are more of them where that makes the client faster: when requests have to wait, although answers take hardly longer
than the quickest ones. The server is far away then, or waits for its disk. Slower answers mean that it has enough to
do. If no answer comes at all, some requests may hang, and the others do not wait for them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

FIRST_LANES = 4
MOST_LANES = 64
LONG_WAIT_SECONDS = 0.05  # for a lane; after a shorter one, there is no other lane
STALL_SECONDS = 0.25  # without any answer, after which there is another lane
_SLOWDOWN = 2.0  # times the quickest answer
_DOUBLING_SECONDS = 60.0  # in which the time of the quickest answer doubles while all are slower
_IDLE_SECONDS = 60.0  # after which connections are closed


class Lanes:
    """`await enter()` before each request, then `leave`. `now` returns seconds since an arbitrary start."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lanes = FIRST_LANES
        self._used = 0
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()  # and since when
        self._quickest: dict[str, tuple[float, float]] = {}  # by kind: seconds of an answer, and when it came
        self._left = now()
        self._stall: asyncio.TimerHandle | None = None

    @property
    def lanes(self) -> int:
        """The number of requests that may be under way now."""
        return self._lanes

    async def enter(self) -> None:
        """Wait for a lane, in the order of the calls."""
        if not self._used and self._now() - self._left > _IDLE_SECONDS:
            self._lanes = FIRST_LANES
        if self._used < self._lanes and not self._waiting:
            self._used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, self._now()))
        self._watch_for_stall()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the lane came at the same moment
                self._used -= 1
                self._go_on()
            raise

    def leave(self, kind: str, seconds: float | None) -> None:
        """Leave the lane. The answer to a request of this kind, its method, took so many seconds; None: none came."""
        self._used -= 1
        self._left = self._now()
        if seconds is not None and self._is_quick(kind, seconds) and self._longest_wait() >= LONG_WAIT_SECONDS:
            self._lanes = min(self._lanes + 1, MOST_LANES)
        self._go_on()

    def _longest_wait(self) -> float:
        return self._left - self._waiting[0][1] if self._waiting else 0.0

    def _is_quick(self, kind: str, seconds: float) -> bool:
        quickest, at = self._quickest.get(kind, (seconds, self._left))
        quickest *= 2 ** ((self._left - at) / _DOUBLING_SECONDS)
        self._quickest[kind] = min(quickest, seconds), self._left
        return seconds <= _SLOWDOWN * quickest

    def _go_on(self) -> None:
        while self._waiting and self._used < self._lanes:
            turn, _ = self._waiting.popleft()
            if not turn.cancelled():
                self._used += 1
                turn.set_result(None)

    def _watch_for_stall(self) -> None:
        if self._stall is None:
            self._stall = asyncio.get_running_loop().call_later(STALL_SECONDS, self._check, self._left)

    def _check(self, left: float) -> None:
        """Open another lane if no request has left since."""
        self._stall = None
        if self._waiting:
            if self._left == left:
                self._lanes = min(self._lanes + 1, MOST_LANES)
                self._go_on()
            self._watch_for_stall()
