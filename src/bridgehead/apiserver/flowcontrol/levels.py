"""A priority level: its seats, and the requests that wait for one.

A request takes a seat while it is handled. When all are taken, it waits in the queue of its flow, and flows take turns;
it is refused when the level does not queue, when too many wait, or after `WAIT_SECONDS`.
Seats that levels lend are in a pool, from which each level takes what it needs beyond its lower limit. A freed seat of
the pool goes first to a level that has fewer seats than its own.
Used on the event loop only. Source: apiserver/pkg/util/flowcontrol/fairqueuing.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable

from .limits import Limits

# A quarter of the time that a request has, as in Kubernetes.
WAIT_SECONDS = 15.0


class Overloaded(Exception):
    """The level has no seat for the request, nor will have one in time. `why` is a reason of Kubernetes' metrics."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Pool:
    """The seats that levels lend. `taken` counts those of all levels beyond their lower limits."""

    def __init__(self) -> None:
        self.size = 0
        self.taken = 0
        self._levels: tuple[Level, ...] = ()

    def configure(self, levels: Iterable[Level]) -> None:
        """Set the levels that share the seats; call those requests that now find one."""
        self._levels = tuple(level for level in levels if level.limits.seats is not None)
        self.size = sum(level.limits.lendable for level in self._levels)
        self.taken = sum(max(0, level.taken - level.limits.lower) for level in self._levels)
        for level in self._levels:
            level.call_waiting()
        self.offer()

    def offer(self) -> None:
        """Give free seats to requests that wait, of levels with fewer seats than their own before others."""
        waiting = [level for level in self._levels if level.waiting]
        for level in waiting:
            level.call_waiting(level.limits.seats)
        for level in waiting:
            level.call_waiting()


class Level:
    """A level. `limits` may be exchanged while requests run and wait; then `Pool.configure` must be called."""

    def __init__(self, name: str, uid: str, limits: Limits, pool: Pool, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.name = name
        self.uid = uid
        self.limits = limits
        self._pool = pool
        self.taken = 0
        self.waiting = 0
        # Refused requests by `Overloaded.why`.
        self.refused: Counter[str] = Counter()
        self._wait_seconds = wait_seconds
        # The waiting requests of each flow; flows in the order of their turns. No flow is empty.
        self._flows: dict[str, deque[asyncio.Future[None]]] = {}

    def take(self) -> bool:
        """Take a seat if one is free and nobody waits."""
        if self.waiting or not self._has_seat():
            return False
        self._occupy()
        return True

    def _has_seat(self) -> bool:
        limits, pool = self.limits, self._pool
        if limits.seats is None or self.taken < limits.lower:
            return True
        return self.taken < limits.upper and pool.taken < pool.size

    def _occupy(self) -> None:
        if self.limits.seats is not None and self.taken >= self.limits.lower:
            self._pool.taken += 1
        self.taken += 1

    async def wait(self, flow: str) -> None:
        """Wait for a seat and take it. Raises `Overloaded`."""
        queue = self._flows.get(flow, ())
        if self.waiting >= self.limits.queued or len(queue) >= self.limits.queued_of_flow:
            raise self._refusal("queue-full" if self.limits.queued else "concurrency-limit")
        turn = asyncio.get_running_loop().create_future()
        self._flows.setdefault(flow, deque()).append(turn)
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave()  # the seat came at the same moment
            else:
                self._forget(flow, turn)
            if isinstance(error, TimeoutError):
                raise self._refusal("time-out") from None
            raise

    def _refusal(self, why: str) -> Overloaded:
        self.refused[why] += 1
        return Overloaded(why)

    def leave(self) -> None:
        """Give the seat back; the next request that waits takes it."""
        self.taken -= 1
        if self.limits.seats is not None and self.taken >= self.limits.lower:
            self._pool.taken -= 1
            self._pool.offer()
        else:
            self.call_waiting()

    def call_waiting(self, most: int | None = None) -> None:
        """Give free seats to requests that wait, until the level has `most` seats; None: all that it may have."""
        while self._flows and self._has_seat() and (most is None or self.taken < most):
            flow = next(iter(self._flows))
            queue = self._flows.pop(flow)
            turn = queue.popleft()
            if queue:
                self._flows[flow] = queue  # behind the others
            self.waiting -= 1
            self._occupy()
            turn.set_result(None)

    def dissolve(self) -> None:
        """Let all requests that wait go on: the level has been deleted, and its seats are no longer counted."""
        self.limits = Limits(None)
        self.call_waiting()

    def _forget(self, flow: str, turn: asyncio.Future[None]) -> None:
        queue = self._flows[flow]
        queue.remove(turn)
        self.waiting -= 1
        if not queue:
            del self._flows[flow]
