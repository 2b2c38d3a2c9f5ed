"""Turns of streams: how many of them continue in one turn of the event loop.

A change wakes every watch of a resource, and a stream sends as soon as its client's buffer has room. Thousands of them
would keep the event loop from everything else for seconds: a new connection needs several turns of the loop. The
streams that want to send therefore wait for each other in the order in which they came, and only as many continue in
one turn as leave it short.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

# A turn of the event loop that takes longer lets fewer streams continue in the next one, a shorter turn more. Streams
# that come while others continue are counted with the next ones, so that twice as many can work in one turn.
_TURN_SECONDS: Final = 0.005
_FEWEST, _FIRST, _MOST = 2, 16, 32


class Turns:
    """The turns of all streams of a server. `clock` returns seconds. Used on the event loop only.

    A stream that has its turn works on until its next `take`, or until it waits for anything else.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._allowed = _FIRST
        self._left = _FIRST
        self._began = 0.0
        self._is_counting = False

    async def take(self) -> None:
        """Wait until the caller may work on, about a millisecond."""
        is_over = self._is_counting and self._clock() - self._began > _TURN_SECONDS
        if self._left and not self._waiting and not is_over:
            self._left -= 1
            self._count()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._count()
        await turn

    def _count(self) -> None:
        """Begin a turn, unless one has begun."""
        if not self._is_counting:
            self._is_counting = True
            self._began = self._clock()
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        """End a turn of the event loop, and let those continue who wait."""
        took = self._clock() - self._began
        self._allowed = max(self._allowed // 2, _FEWEST) if took > _TURN_SECONDS else min(self._allowed + 2, _MOST)
        self._left, self._is_counting = self._allowed, False
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # cancelled: its client has left
                turn.set_result(None)
                self._left -= 1
        if self._waiting or self._left < self._allowed:
            self._count()
