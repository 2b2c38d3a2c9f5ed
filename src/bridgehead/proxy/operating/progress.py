"""Makes known how far this node's kernel is programmed, so that others can wait for it.

The agent tells `ProgressPublisher` after every sync; `cli/proxy.py` runs it. What it writes is described in
`objects/progress.py`. A change is written at once; then at most one write in an interval, and one every
`RENEW_SECONDS` while nothing changes. The interval grows with the cluster, so that all proxies together write at most
`WRITES_PER_SECOND`, which is what the heartbeats of a cluster of 5,000 nodes cost it anyway.

Nothing here is needed to serve: whatever goes wrong is logged once and tried again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, ClientError, Forbidden, NotFound
from bridgehead.objects.kinds import LEASES, NODES
from bridgehead.objects.meta import ObjectKey, OwnerReference, version_number
from bridgehead.objects.progress import (
    NAMESPACE,
    RENEW_SECONDS,
    Versions,
    lease_changes,
    lease_name,
    new_lease,
)

log = logging.getLogger(__name__)

WRITES_PER_SECOND = 500.0  # of all proxies of the cluster
SHORTEST_INTERVAL = 0.02
COUNT_SECONDS = 600.0  # how long a count of the nodes is good for
FORBIDDEN_SECONDS = 300.0
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0


class Pace(NamedTuple):
    """`spread`: within how many seconds all proxies tell of one change. `interval`: how often each may write."""

    spread: float
    interval: float


def pace_of(nodes: int) -> Pace:
    """For a cluster of so many nodes. One change reaches all at once: each waits for a random part of `spread`."""
    spread = nodes / WRITES_PER_SECOND
    return Pace(spread, max(SHORTEST_INTERVAL, spread))


class ProgressPublisher:
    """Of the node `node_name`. `now` gives epoch seconds, `jitter` numbers from 0 to 1."""

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        *,
        now: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._node_name = node_name
        self._now = now
        self._jitter = jitter
        self._versions: Versions | None = None
        self._refused: frozenset[ObjectKey] = frozenset()
        self._news = asyncio.Event()
        self._pace = pace_of(1)
        self._counted_at: float | None = None
        self._retry_seconds = 0.0
        self._last_error = ""

    def programmed(
        self, services: str, slices: str, *, changed: bool = True, refused: Iterable[ObjectKey] = ()
    ) -> None:
        """The kernel is as Services and EndpointSlices of these resourceVersions say, but for `refused` Services.

        Not `changed`: nothing came but newer versions, which can wait until the Lease is renewed.
        """
        versions, refused = Versions(version_number(services), version_number(slices)), frozenset(refused)
        if self._versions is None or (changed and versions != self._versions) or refused != self._refused:
            self._news.set()
        self._versions, self._refused = versions, refused

    async def run(self) -> None:
        """Publish until cancelled."""
        await self._news.wait()
        while True:
            await self._count_nodes()
            await asyncio.sleep(self._jitter() * self._pace.spread)
            await asyncio.sleep(await self._publish())
            try:
                async with asyncio.timeout(RENEW_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _publish(self) -> float:
        """Write once. Returns after how many seconds the next write may be."""
        if self._versions is None:
            return 0.0
        self._news.clear()
        try:
            await self._write(self._versions)
        except Forbidden as error:
            needed = "examples/real-cluster/proxy-progress-rbac.yaml"
            self._failed(f"{error}; nobody can wait for this node's proxy (see {needed})")
            return FORBIDDEN_SECONDS
        except ClientError as error:
            self._failed(str(error))
            self._news.set()
            self._retry_seconds = min(max(2 * self._retry_seconds, FIRST_RETRY_SECONDS), LONGEST_RETRY_SECONDS)
            return self._retry_seconds * (0.5 + self._jitter() / 2)
        if self._last_error:
            log.info("the proxy's progress is published again")
        self._last_error, self._retry_seconds = "", 0.0
        return self._pace.interval

    def _failed(self, why: str) -> None:
        if why != self._last_error:
            log.warning("the proxy's progress is not published: %s", why)
            self._last_error = why

    async def _write(self, versions: Versions) -> None:
        node, name = self._node_name, lease_name(self._node_name)
        changes = lease_changes(node, versions, self._now(), self._refused)
        try:
            await self._client.patch(LEASES, name, NAMESPACE, changes)
        except NotFound:
            try:
                lease = new_lease(node, versions, self._now(), await self._find_owner(), self._refused)
                await self._client.create(LEASES, lease)
            except AlreadyExists:
                await self._client.patch(LEASES, name, NAMESPACE, changes)

    async def _find_owner(self) -> OwnerReference | None:
        """The Node, with which the Lease is to go."""
        try:
            node = await self._client.get(NODES, self._node_name)
        except NotFound:
            return None
        return OwnerReference(api_version="v1", kind="Node", name=self._node_name, uid=node.metadata.uid)

    async def _count_nodes(self) -> None:
        """Now and then: one Node is read, and how many more there are."""
        now = asyncio.get_running_loop().time()
        if self._counted_at is not None and now < self._counted_at + COUNT_SECONDS:
            return
        try:
            page = await self._client.list(NODES, limit=1)
        except ClientError as error:
            log.debug("nodes not counted: %s", error)
            return
        self._counted_at = now
        self._pace = pace_of(len(page.items) + page.metadata.remaining_item_count)
