"""Reads that see everything that was acknowledged before them, by any server.

Such a read learns etcd's revision by one read that a majority of the members confirms, and waits until the watch has
shown everything up to it. Reads that come at the same time share both.

The newest revision may be that of a key outside the watched prefix. The watch then reports by a progress notification
how far it is, as in Kubernetes' watch cache. Older releases of etcd may send such a notification before earlier changes
(`client.versions`). There, a write below the prefix is made instead: the watch shows it after everything before it.

Source: apiserver/pkg/storage/cacher/cacher.go (`waitUntilFreshAndGetList`), progress (`ConditionalProgressRequester`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable

from bridgehead.storage.errors import StoreAway

from .client.errors import EtcdError, NoSpace
from .client.etcd_client import EtcdClient
from .client.requests import prefix_end, put
from .client.versions import has_reliable_progress

log = logging.getLogger(__name__)

# Changes on their way arrive within this time. Only then progress is asked for, and again after it.
_ARRIVAL_SECONDS = 0.05
# A client's request waits for this time at most.
_WAIT_SECONDS = 10.0


class Freshness:
    """The revision that has been shown of the keys below `prefix`, and those who wait for one.

    `own_prefix` is where this project may write.
    """

    def __init__(self, client: EtcdClient, prefix: bytes, own_prefix: bytes) -> None:
        self._client = client
        self._prefix = prefix
        self._mark = own_prefix + b"mark"
        self._revision = 0
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._somebody_waits = asyncio.Event()
        # The read of etcd's revision that is on its way, and the one that readers join.
        self._running: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    def reached(self, revision: int) -> None:
        """Let those go on who wait for this revision or an earlier one."""
        self._revision = max(self._revision, revision)
        while self._waiting and self._waiting[0][0] <= self._revision:
            _, _, waiting = heapq.heappop(self._waiting)
            if not waiting.done():
                waiting.set_result(None)

    async def catch_up(self) -> None:
        """Wait until everything is visible that was committed before this call. Raises `EtcdError`, `StoreAway`."""
        if self._next is None:
            self._next = asyncio.create_task(self._read_revision())
        await self.wait_for(await asyncio.shield(self._next))

    async def _read_revision(self) -> int:
        """Read etcd's revision when the read before this one has ended. From then on, no reader joins it."""
        if self._running is not None:
            await asyncio.wait([self._running])
        self._running, self._next = self._next, None
        return (await self._client.range(self._mark, keys_only=True)).revision

    async def wait_for(self, revision: int) -> None:
        """Wait until a revision has been reached. Raises `StoreAway` when it takes too long."""
        if revision <= self._revision:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._order), waiting))
        self._somebody_waits.set()
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await waiting
        except TimeoutError:
            raise StoreAway(f"etcd is at revision {revision}, but has not shown more than {self._revision}") from None

    async def run(self, request_progress: Callable[[], Awaitable[None]]) -> None:
        """Ask how far the watch is while somebody waits for it, until cancelled."""
        while True:
            await self._somebody_waits.wait()
            self._somebody_waits.clear()
            before = self._revision
            await asyncio.sleep(_ARRIVAL_SECONDS)
            if not self._waiting:
                continue
            self._somebody_waits.set()
            if self._revision == before:
                try:
                    await self._ask(request_progress)
                except EtcdError as error:
                    log.debug("cannot ask etcd for progress: %s", error)

    async def _ask(self, request_progress: Callable[[], Awaitable[None]]) -> None:
        if has_reliable_progress((await self._client.status()).version):
            await request_progress()
            return
        try:
            await self._client.txn([], [put(self._mark, b"")])
        except NoSpace:
            # Only deletions are possible now. A notification can be ahead of these alone once all other changes are
            # there.
            if await self._newest_change() <= self._revision:
                await request_progress()

    async def _newest_change(self) -> int:
        """Return the revision of the last write to a key that is there."""
        newest = 0
        async for page in self._client.pages(self._prefix, prefix_end(self._prefix), keys_only=True):
            newest = max(newest, *(kv.mod_revision for kv in page.kvs), 0)
        return newest

    def close(self) -> None:
        for _, _, waiting in self._waiting:
            waiting.cancel()
        for task in (self._running, self._next):
            if task is not None:
                task.cancel()
