"""Publish the resourceVersions up to which this node's kernel is programmed, so that others can wait for them.

The agent calls `ProgressPublisher` after every sync; `process.py` runs it. `objects/progress.py` describes the Lease.
A change is written at once; then at most one write in an interval, and one every `RENEW_SECONDS` while nothing changes.
The interval grows with the cluster, so that all proxies together write at most `WRITES_PER_SECOND`, as many as the
heartbeats of a cluster of 5,000 nodes.

No Service depends on the Lease: errors are logged once and retried.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, ClientError, Forbidden, NotFound
from bridgehead.objects.kinds import LEASES
from bridgehead.objects.meta import ObjectKey, OwnerReference, version_number
from bridgehead.objects.progress import (
    NAMESPACE,
    RENEW_SECONDS,
    UNKNOWN_MODE,
    ModeInUse,
    Versions,
    lease_changes,
    lease_name,
    new_lease,
)

log = logging.getLogger(__name__)

WRITES_PER_SECOND = 500.0  # of all proxies of the cluster
SHORTEST_INTERVAL = 0.02
FORBIDDEN_SECONDS = 300.0
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0


class Pace(NamedTuple):
    """The rate of writes, in seconds. `spread`: in which all proxies write one change. `interval`: between writes."""

    spread: float
    interval: float


def pace_for(nodes: int) -> Pace:
    """Return the pace for a number of nodes. All observe a change at once; each waits a random part of `spread`."""
    spread = nodes / WRITES_PER_SECOND
    return Pace(spread, max(SHORTEST_INTERVAL, spread))


class KnownNodes(NamedTuple):
    """The number of the cluster's nodes, and the uid of this one's Node, "" if there is none."""

    number: int = 1
    uid: str = ""


class ProgressPublisher:
    """Publishes the progress of one node's proxy, and its mode.

    `now` returns epoch seconds, `jitter` numbers from 0 to 1.
    """

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        mode: ModeInUse = UNKNOWN_MODE,
        *,
        now: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._mode = mode
        self._now = now
        self._jitter = jitter
        self._versions: Versions | None = None
        self._refused: frozenset[ObjectKey] = frozenset()
        self._publish_event = asyncio.Event()
        self._nodes = KnownNodes()
        self._backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, jitter=jitter)
        self._last_error = ""

    def on_programmed(
        self,
        services: str,
        slices: str,
        nodes: KnownNodes,
        *,
        changed: bool = True,
        refused: Iterable[ObjectKey] = (),
    ) -> None:
        """Record that the kernel has the Services and EndpointSlices of these resourceVersions, but for `refused` ones.

        `changed` is False if only the versions are newer, which can wait until the Lease is renewed.
        """
        self._nodes = nodes
        versions, refused = Versions(version_number(services), version_number(slices)), frozenset(refused)
        if self._versions is None or (changed and versions != self._versions) or refused != self._refused:
            self._publish_event.set()
        self._versions, self._refused = versions, refused

    async def run(self) -> None:
        """Publish until cancelled."""
        await self._publish_event.wait()
        while True:
            await asyncio.sleep(self._jitter() * pace_for(self._nodes.number).spread)
            await asyncio.sleep(await self._publish())
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    await self._publish_event.wait()
            except TimeoutError:
                continue

    async def _publish(self) -> float:
        """Write once. Returns the seconds until the next write is allowed."""
        if self._versions is None:
            return 0.0
        self._publish_event.clear()
        try:
            await self._write(self._versions)
        except Forbidden as error:
            needed = "a Role with create and patch for leases in kube-system, as the chart has it"
            self._failed(f"{error}; no client can wait for this node's proxy without {needed}")
            return FORBIDDEN_SECONDS
        except ClientError as error:
            self._failed(str(error))
            self._publish_event.set()
            return self._backoff.next()
        if self._last_error:
            log.info("the proxy's progress is published again")
        self._last_error = ""
        self._backoff.reset()
        return pace_for(self._nodes.number).interval

    def _failed(self, why: str) -> None:
        if why != self._last_error:
            log.warning("the proxy's progress is not published: %s", why)
            self._last_error = why

    async def _write(self, versions: Versions) -> None:
        node, name, uid = self._node_name, lease_name(self._node_name), self._nodes.uid
        changes = lease_changes(node, versions, self._now(), self._refused, self._mode)
        try:
            await self._client.patch(LEASES, name, NAMESPACE, changes)
        except NotFound:
            try:
                owner = OwnerReference(api_version="v1", kind="Node", name=node, uid=uid) if uid else None
                lease = new_lease(node, versions, self._now(), owner, self._refused, self._mode)
                await self._client.create(LEASES, lease)
            except AlreadyExists:
                await self._client.patch(LEASES, name, NAMESPACE, changes)
