"""Remove stale flows from the kernel's connection tracking, beside the syncs. `agent.py` runs it.

`stale.py` decides when to scan, `scan.py` which flows are stale; `network/conntrack.py` talks to the kernel. A scan may
take long on a node with many flows, so no change of rules waits for it (kubernetes #135323), and scans take a bounded
share of a CPU.
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
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import AddressPort, Family
from bridgehead.proxy.frontend_table import FrontendTable, Update
from bridgehead.proxy.frontends import ServiceFrontends
from bridgehead.proxy.mode import Settings

from .scan import NodeAddresses, Scan
from .stale import StaleFlows

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
_SHARE = 0.1  # of a CPU, for scans in the long run
_SAVED_SECONDS = 2.0  # of CPU time saved for several backends that leave one after the other
_THIS_NODE = NodeAddresses(is_local)

# Receives the family, the number of removed flows, and the seconds that the scan of this family took.
OnScan = Callable[[Family, int, float], None]


def _ignore(family: Family, removed: int, seconds: float) -> None:
    pass


class Flows(Protocol):
    """The interface to the kernel's flows. Methods may block, and raise OSError.

    Queries in the block `one_walk` may get the flows as they were at the first of them.
    """

    def close(self) -> None: ...
    def one_walk(self) -> contextlib.AbstractContextManager[None]: ...
    def remove(
        self,
        family: Family,
        protocol: str,
        destination: AddressPort,
        reply_source: AddressPort,
        is_unanswered: bool,
        *,
        is_stale: Callable[[Flow], bool],
    ) -> int: ...


class Allowance:
    """The CPU time for scans: a share of the time that passes, of which some may be saved.

    Clients of a removed backend send into the void until the scan. A scan must therefore start at once also in a
    rolling update, where one backend leaves after the other; a pause in proportion to the last scan would delay it most
    on the nodes with most flows. Times are seconds, `now` of any one clock.
    """

    def __init__(self, now: float, share: float = _SHARE, saved: float = _SAVED_SECONDS) -> None:
        self._share = share
        self._longest = saved / share
        self._paid_until = now - self._longest

    def spend(self, cost: float, now: float) -> float:
        """Return the pause after a scan with this cost: at least as long as the scan, to leave CPU time for syncs."""
        self._paid_until = max(self._paid_until, now - self._longest) + cost / self._share
        return max(cost, self._paid_until - now)


class ConntrackReconciler:
    """`record` each compiled Service, call `on_programmed` when the kernel has it; `run` removes its stale flows."""

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
        self._cost = 0.0  # of the last scan, in CPU seconds

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def record(
        self,
        service: ObjectKey,
        compiled: ServiceFrontends | None,
        slices: Iterable[EndpointSlice],
        update: Update,
    ) -> None:
        """Record a compiled Service, its slices, and what changed in the table."""
        self._stale.record(service, compiled, slices, update)

    def on_programmed(self, table: FrontendTable, settings: Settings) -> None:
        """The kernel has what was recorded so far. The table is read later as well."""
        self._table = table
        self._stale.on_programmed(settings, self._now())
        self._changed.set()

    async def run(self, on_scan: OnScan = _ignore) -> None:
        """Scan whenever a scan is due, until cancelled. `on_scan` is called for each family after a scan."""
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
            await self.scan(on_scan)
            await asyncio.sleep(self._allowance.spend(self._cost, self._now()))

    async def scan(self, on_scan: OnScan = _ignore) -> int:
        """Remove the flows that are stale by now. Returns their number. Failures are retried."""
        scan = self._stale.take(self._table, self._now(), self._node)
        if scan is None:
            return 0
        try:
            found = await self._in_thread(scan)
        except OSError as error:
            log.log(
                logging.DEBUG if self._has_failed else logging.WARNING,
                "flows to backends that are gone stay until they time out: %s",
                error,
            )
            self._has_failed = True
            self._stale.put_back(scan, self._now() + RETRY_SECONDS)
            self.close()
            return 0
        for family, result in found.items():
            on_scan(family, *result)
        removed = sum(count for count, _ in found.values())
        if removed:
            log.info("%d flows led to backends that are gone; removed", removed)
        return removed

    async def _in_thread(self, scan: Scan) -> dict[Family, tuple[int, float]]:
        work = asyncio.ensure_future(asyncio.to_thread(self._remove, scan))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await work  # uses the kernel's sockets, which are closed next
            raise

    def _remove(self, scan: Scan) -> dict[Family, tuple[int, float]]:
        """Return, for each family, the number of removed flows and the seconds that it took."""
        begun_at = time.thread_time()
        try:
            kernel = self._kernel = self._kernel or self._open_kernel()
            found: dict[Family, tuple[int, float]] = {}
            with kernel.one_walk():
                for query in scan.queries():
                    begun = time.monotonic()
                    removed = kernel.remove(*query, is_stale=functools.partial(scan.is_stale, query.protocol))
                    count, seconds = found.get(query.family, (0, 0.0))
                    found[query.family] = count + removed, seconds + time.monotonic() - begun
            return found
        finally:
            self._cost = time.thread_time() - begun_at  # CPU time: waiting on a busy machine costs nothing
