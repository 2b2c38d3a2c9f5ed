"""A clock that advances only while this process receives the nodes' heartbeats. Silent nodes are judged by this clock.

Every few seconds the process writes a Lease of its own and waits until the watch of the nodes' Leases returns it. Only
the time between two such echoes counts, and of each interval no more than its usual length. A node is therefore not
blamed for time in which the API server accepted no writes or answered late, in which the watch hung, or in which this
process was stopped or its machine suspended. A watch delivers in order, so everything that nodes wrote before an echo
is known when the echo arrives.

The manager creates one for the node controllers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from time import monotonic, time
from typing import Protocol

from bridgehead.client import ApiClient, Informer, renew_lease
from bridgehead.client.errors import ClientError, Unreachable
from bridgehead.objects.coordination import Lease
from bridgehead.objects.meta import ObjectKey

log = logging.getLogger(__name__)

LEASE = ObjectKey("kube-system", "node-lifecycle-controller")
PERIOD_SECONDS = 5.0  # as kube-controller-manager's --node-monitor-period
_SLACK = 1.5  # an interval counts for at most this many periods
_ECHO_PERIODS = 2.0  # after that time an echo is given up and the next one begins


def monitor_period(grace_period: float) -> float:
    """Return the seconds between two checks of all nodes, and between two echoes."""
    return min(PERIOD_SECONDS, grace_period / 8)


class Clock(Protocol):
    """The part of `WatchClock` that controllers use."""

    def now(self) -> float: ...


class WatchClock:
    """The clock; `run` keeps it going until cancelled. `leases` must contain the nodes' Leases and our own."""

    def __init__(
        self,
        client: ApiClient,
        leases: Informer[Lease],
        period: float = PERIOD_SECONDS,
        *,
        wall_clock: Callable[[], float] = time,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._leases = leases
        self._period = period
        self._wall_clock = wall_clock
        self._clock = clock
        self._elapsed = 0.0
        self._last_echo = clock()
        self._changed = asyncio.Event()
        self._identity = f"{socket.gethostname()}_{os.getpid()}"
        self._last_error = ""
        leases.on_change(self._lease_changed)

    def now(self) -> float:
        """Return seconds since an arbitrary start."""
        return self._elapsed

    async def run(self) -> None:
        await self._leases.wait_synced()
        self._last_echo = self._clock()
        while True:
            await asyncio.sleep(self._period)
            try:
                async with asyncio.timeout(max(1.0, self._period * _ECHO_PERIODS)):
                    await self._echo()
            except TimeoutError:
                log.debug("no echo from the API server in time")
            except Unreachable:  # the client has logged it
                pass
            except ClientError as error:
                self._report(error)
            else:
                self._count()

    def _lease_changed(self, _old: Lease | None, new: Lease | None) -> None:
        if new is not None and new.key == LEASE:
            self._changed.set()

    async def _echo(self) -> None:
        """Write our Lease and wait until the watch has returned it. Raises ClientError."""
        duration = max(1, int(self._period * 2))
        written = await renew_lease(
            self._client, LEASE, holder=self._identity, duration_seconds=duration, now=self._wall_clock
        )
        while True:
            self._changed.clear()
            seen = self._leases.get(LEASE)
            if seen is not None and seen.spec.renew_time == written.spec.renew_time:
                return
            await self._changed.wait()

    def _count(self) -> None:
        now = self._clock()
        self._elapsed += min(now - self._last_echo, self._period * _SLACK)
        self._last_echo = now
        self._last_error = ""

    def _report(self, error: ClientError) -> None:
        if str(error) != self._last_error:
            self._last_error = str(error)
            log.warning("Lease %s cannot be written, so no node is judged silent: %s", LEASE, error)
