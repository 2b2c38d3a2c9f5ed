"""Takes flows that lead nowhere out of the kernel's connection tracking, beside the syncs. `agent.py` runs it.

What is stale, and when it is worth a look, is decided in `stale.py`; the kernel is `network/conntrack.py`. Looking
may take long where there are many flows, so no change of rules waits for it (kubernetes #135323), and in the long run
it takes a small part of the time only.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from bridgehead.network.conntrack import Conntrack, Flow
from bridgehead.network.own_addresses import is_local
from bridgehead.objects.discovery import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.addresses import Family
from bridgehead.proxy.changes import FrontendTable, Update
from bridgehead.proxy.frontends import ServiceFrontends
from bridgehead.proxy.mode import Settings

from .stale import Look, NodeAddresses, Place, StaleFlows

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
_SHARE = 0.1  # of a CPU that looking may take in the long run
_SAVED_SECONDS = 2.0  # of a CPU that it may have saved, for several backends that leave one after the other
_THIS_NODE = NodeAddresses(is_local)


Told = Callable[[Family, int, float], None]


def _nobody(family: Family, removed: int, seconds: float) -> None:
    """For who is not interested."""


class Flows(Protocol):
    """What is needed of the kernel; both may block, and raise OSError."""

    def close(self) -> None: ...
    def remove(
        self,
        family: Family,
        protocol: str,
        destination: Place,
        answerer: Place,
        is_unanswered: bool,
        *,
        is_stale: Callable[[Flow], bool],
    ) -> int: ...


class Allowance:
    """How much of a CPU's time looking may take: a share of what passes, and at once what was saved before.

    Clients of a backend that has left send into the void until it was looked for. So a look has to be at once in a
    rolling update, too, where one backend leaves after the other; a rest in proportion to the last look would hold it
    up most where there are most flows. Times are seconds; `now` of any one clock.
    """

    def __init__(self, now: float, share: float = _SHARE, saved: float = _SAVED_SECONDS) -> None:
        self._share = share
        self._longest = saved / share
        self._paid_until = now - self._longest

    def spend(self, cost: float, now: float) -> float:
        """For how long to rest after a look that cost so much: as long as that at least, since syncs need CPUs, too."""
        self._paid_until = max(self._paid_until, now - self._longest) + cost / self._share
        return max(cost, self._paid_until - now)


class FlowKeeper:
    """`note` each compiled Service, say when that is `programmed`; `run` looks after it."""

    def __init__(
        self,
        open_kernel: Callable[[], Flows] = Conntrack,
        node: NodeAddresses = _THIS_NODE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stale = StaleFlows()
        self._open_kernel = open_kernel
        self._kernel: Flows | None = None
        self._node = node
        self._now = now
        self._table = FrontendTable()
        self._changed = asyncio.Event()
        self._has_failed = False
        self._allowance = Allowance(now())
        self._cost = 0.0  # of the last look, in CPU seconds

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def note(
        self,
        service: ObjectKey,
        compiled: ServiceFrontends | None,
        slices: Iterable[EndpointSlice],
        update: Update,
    ) -> None:
        self._stale.note(service, compiled, slices, update)

    def programmed(self, table: FrontendTable, settings: Settings) -> None:
        """What was noted so far is in the kernel. The table is read later, too."""
        self._table = table
        self._stale.programmed(settings, self._now())
        self._changed.set()

    async def run(self, told: Told = _nobody) -> None:
        """Look whenever there is something to look at, until cancelled.

        `told` is, after each look, of a family, how many of its flows were removed, and in how many seconds.
        """
        while True:
            due = self._stale.next_due()
            self._changed.clear()
            if due is None or due > self._now():
                try:
                    async with asyncio.timeout(None if due is None else due - self._now()):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            await self.look(told)
            await asyncio.sleep(self._allowance.spend(self._cost, self._now()))

    async def look(self, told: Told = _nobody) -> int:
        """Remove what is stale by now; how many flows were. What fails is told once and tried again."""
        look = self._stale.take(self._table, self._now(), self._node)
        if look is None:
            return 0
        try:
            found = await self._in_thread(look)
        except OSError as error:
            log.log(
                logging.DEBUG if self._has_failed else logging.WARNING,
                "flows to backends that are gone stay until they time out: %s",
                error,
            )
            self._has_failed = True
            self._stale.put_back(look, self._now() + RETRY_SECONDS)
            self.close()
            return 0
        for family, result in found.items():
            told(family, *result)
        removed = sum(count for count, _ in found.values())
        if removed:
            log.info("%d flows led to backends that are gone; removed", removed)
        return removed

    async def _in_thread(self, look: Look) -> dict[Family, tuple[int, float]]:
        work = asyncio.ensure_future(asyncio.to_thread(self._remove, look))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await work  # it uses the kernel's sockets, which are closed next
            raise

    def _remove(self, look: Look) -> dict[Family, tuple[int, float]]:
        """How many flows of each family were removed, and the seconds it took."""
        begun_at = time.thread_time()
        try:
            kernel = self._kernel = self._kernel or self._open_kernel()
            found: dict[Family, tuple[int, float]] = {}
            for query in look.queries():
                begun = time.monotonic()
                removed = kernel.remove(*query, is_stale=functools.partial(look.is_stale, query.protocol))
                count, seconds = found.get(query.family, (0, 0.0))
                found[query.family] = count + removed, seconds + time.monotonic() - begun
            return found
        finally:
            self._cost = time.thread_time() - begun_at  # on a busy machine it waits much, which costs nothing
