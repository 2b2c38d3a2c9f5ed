"""The time in which this process could hear the nodes, by which their silence is judged.

Every few seconds a Lease of our own is written and waited for in the watch that brings the nodes' Leases. Only the time
between two such echoes counts, and of each interval no more than its usual length. So a node is not blamed for time in
which the API server took no writes, did not answer or answered late, in which the watch stood still, or in which this
process was stopped or its machine suspended. A watch delivers in order: what nodes wrote before an echo is known by
then.

Made by the manager for the controllers of nodes.
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
_SLACK = 1.5  # an interval counts up to this many periods
_ECHO_PERIODS = 2.0  # an echo that takes longer is given up, and the next one begins


def monitor_period(grace_period: float) -> float:
    """Seconds between two looks at all nodes, and between two echoes."""
    return min(PERIOD_SECONDS, grace_period / 8)


class Hearing(Protocol):
    """What controllers need of `HeardClock`."""

    def now(self) -> float: ...


class HeardClock:
    """`now()` in seconds since some moment. `leases` must have the nodes' Leases and ours. `run` until cancelled."""

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
        self._heard = 0.0
        self._last_echo = clock()
        self._changed = asyncio.Event()
        self._identity = f"{socket.gethostname()}_{os.getpid()}"
        self._last_error = ""
        leases.on_change(self._lease_changed)

    def now(self) -> float:
        return self._heard

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
            except Unreachable:  # the client has said so
                pass
            except ClientError as error:
                self._report(error)
            else:
                self._count()

    def _lease_changed(self, _old: Lease | None, new: Lease | None) -> None:
        if new is not None and new.key == LEASE:
            self._changed.set()

    async def _echo(self) -> None:
        """Write our Lease and wait until the watch has brought it, or a later one. Raises ClientError."""
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
        self._heard += min(now - self._last_echo, self._period * _SLACK)
        self._last_echo = now
        self._last_error = ""

    def _report(self, error: ClientError) -> None:
        if str(error) != self._last_error:
            self._last_error = str(error)
            log.warning("Lease %s cannot be written, so no node is judged silent: %s", LEASE, error)
