"""A priority level: its seats, and the requests that wait for one.

A request takes a seat while it is handled. When all are taken, it waits in the queue of its flow, and flows take turns;
it is refused when the level does not queue, when too many wait, or after `WAIT_SECONDS`.
Used on the event loop only. Source: apiserver/pkg/util/flowcontrol/fairqueuing.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from .seats import Limits

# A quarter of the time that a request has, as in Kubernetes.
WAIT_SECONDS = 15.0


class Overloaded(Exception):
    """The level has no seat for the request, nor will have one in time. `why` is a reason of Kubernetes' metrics."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Level:
    """A level. `limits` may be exchanged while requests run and wait."""

    def __init__(self, name: str, uid: str, limits: Limits, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.name = name
        self.uid = uid
        self.limits = limits
        self.taken = 0
        self.waiting = 0
        # Refused requests by `Overloaded.why`.
        self.refused: Counter[str] = Counter()
        self._wait_seconds = wait_seconds
        # The waiting requests of each flow; flows in the order of their turns. No flow is empty.
        self._flows: dict[str, deque[asyncio.Future[None]]] = {}

    def take(self) -> bool:
        """Take a seat if one is free and nobody waits."""
        seats = self.limits.seats
        if seats is not None and (self.taken >= seats or self.waiting):
            return False
        self.taken += 1
        return True

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
        self.call_waiting()

    def call_waiting(self) -> None:
        """Give free seats to requests that wait: after one has been left, or after the limits have changed."""
        while self._flows and (self.limits.seats is None or self.taken < self.limits.seats):
            flow = next(iter(self._flows))
            queue = self._flows.pop(flow)
            turn = queue.popleft()
            if queue:
                self._flows[flow] = queue  # behind the others
            self.waiting -= 1
            self.taken += 1
            turn.set_result(None)

    def _forget(self, flow: str, turn: asyncio.Future[None]) -> None:
        queue = self._flows[flow]
        queue.remove(turn)
        self.waiting -= 1
        if not queue:
            del self._flows[flow]
