"""The live cluster: informers of the objects that views show, tables of rows computed from them, and their changes.

A change of an object marks its row; marked rows are computed at most every COALESCE_SECONDS, and only while somebody
subscribes. The first change after a pause is published at once. Metrics pages are read only while somebody subscribes
to their tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from bridgehead.client import ApiClient, Informer
from bridgehead.client import running as running_informers
from bridgehead.objects import progress
from bridgehead.objects.core import Event
from bridgehead.objects.kinds import ENDPOINT_SLICES, EVENTS, LEASES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey, ObjectMeta

from .object_tables import ObjectTables
from .observing import ObservedClient
from .rows import Row
from .scraping import Scraper
from .subscriptions import MOST_UPDATES, Feed, Feeds
from .updates import METRICS_TABLES, OBJECT_TABLES, Change, Op, Status, Table, Update

COALESCE_SECONDS = 0.05
_LARGEST_SHARE = 0.2  # of a core, for computing rows while very many objects change
_LONGEST_MESSAGE = 1000  # of an Event that is kept

_UNSEEN_NAMES = {LEASES.plural: "progress of the service proxies (leases)"}


class LiveCluster:
    """Use as `async with LiveCluster(client) as live`. All methods are for its event loop.

    Whatever cannot be read is in `status`, and the rest works. No method raises ClientError.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._source = ObservedClient(client, self._on_status)
        source = self._source
        self._services = Informer(source, SERVICES)
        self._slices = Informer(source, ENDPOINT_SLICES)
        self._pods = Informer(source, PODS)
        self._nodes = Informer(source, NODES)
        self._events = Informer(source, EVENTS, trim=_trim_event)
        self._leases = Informer(source, LEASES, progress.NAMESPACE, progress.SELECTOR)
        self._informers: tuple[Informer[Any], ...] = (
            self._services,
            self._slices,
            self._pods,
            self._nodes,
            self._events,
            self._leases,
        )
        self._tables = ObjectTables(
            self._services, self._slices, self._pods, self._nodes, self._events, self._leases, self._on_mark
        )
        self._feeds = Feeds(self.snapshot, self._on_tables)
        self._scraper = Scraper(client, self._pods.items, self._on_metrics)
        self._metrics: Mapping[Table, Mapping[str, Row]] = {}
        self._scraping: asyncio.Task[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._next_flush = 0.0  # time of the loop
        self._synced = asyncio.Event()
        self._status = Status(server=client.config.server)
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._running())
        return self

    async def __aexit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._source.probe())]
        tasks += [asyncio.create_task(self._wait_synced(each)) for each in self._informers]
        try:
            async with running_informers(*self._informers):
                yield
        finally:
            self._feeds.end()
            if self._timer is not None:
                self._timer.cancel()
            if self._scraping is not None:
                tasks.append(self._scraping)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # For views

    @property
    def status(self) -> Status:
        return self._status

    def subscribe(self, tables: Iterable[Table], bound: int = MOST_UPDATES) -> Feed:
        """Return a subscription to these tables, to be used as `with`: an async iterator of updates.

        Its first update is a snapshot, also before everything is synced. After `bound` updates that nobody has read,
        they are dropped, and the next one read is a snapshot again.
        """
        return Feed(self._feeds, frozenset(tables), bound)

    def snapshot(self, tables: Iterable[Table]) -> Update:
        """Return all rows of these tables as of now. Tables of metrics have rows only while somebody subscribes."""
        rows: dict[Table, tuple[Row, ...]] = {}
        for table in sorted(tables):
            if table in OBJECT_TABLES:
                rows[table] = self._tables.rows(table)
            else:
                found = self._metrics.get(table, {})
                rows[table] = tuple(found[key] for key in sorted(found))
        return Update(at=time.time(), is_snapshot=True, rows=rows, status=self._status)

    async def synced(self, seconds: float) -> bool:
        """Wait until everything that can be read has been listed. Returns False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    def pods_of(self, service: ObjectKey) -> tuple[str, ...]:
        """Return the keys (NAMESPACE/NAME) of the pods that a Service selects, or that its slices name."""
        return self._tables.pods_of(service)

    def pods_on(self, node: str) -> tuple[str, ...]:
        """Return the keys of the pods on a node."""
        return self._tables.pods_on(node)

    # Changes

    def _on_mark(self) -> None:
        if self._timer is None and self._feeds:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(self._next_flush, loop.time()), self._flush)

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._timer = None
        changes = self._tables.changes()
        if changes:
            self._feeds.publish(time.time(), changes, None)
        ended = loop.time()
        self._next_flush = ended + max(COALESCE_SECONDS, (ended - began) / _LARGEST_SHARE)
        if self._tables.has_marked:
            self._on_mark()

    def _on_tables(self) -> None:
        """Follow the tables that somebody wants."""
        wanted = self._feeds.tables
        self._tables.want(wanted)
        wants_metrics = not wanted.isdisjoint(METRICS_TABLES)
        self._scraper.tables = wanted & METRICS_TABLES
        if wants_metrics and self._scraping is None:
            self._scraping = asyncio.create_task(self._scraper.run())
        elif not wants_metrics and self._scraping is not None:
            self._scraping.cancel()
            self._scraping = None
            self._metrics = {}

    def _on_metrics(self, rows: Mapping[Table, Mapping[str, Row]]) -> None:
        """Publish the differences of the tables of metrics."""
        before, self._metrics = self._metrics, rows
        changes = []
        for table in METRICS_TABLES:
            old, new = before.get(table, {}), rows.get(table, {})
            changes += [Change(table, Op.REMOVED, key, None) for key in old.keys() - new.keys()]
            for key, row in new.items():
                if old.get(key) != row:
                    changes.append(Change(table, Op.CHANGED if key in old else Op.ADDED, key, row))
        if changes:
            self._feeds.publish(time.time(), changes, None)

    # Status

    async def _wait_synced(self, informer: Informer[Any]) -> None:
        await informer.wait_synced()
        self._on_status()

    def _on_status(self) -> None:
        source = self._source
        is_synced = all(each.resource_version or source.has_failed(each.kind) for each in self._informers)
        self._tables.can_see_pods = not source.has_failed(PODS)
        unseen = tuple(type(each)(_UNSEEN_NAMES.get(each.what, each.what), each.why) for each in source.unseen)
        status = Status(
            server=self._client.config.server,
            is_synced=is_synced or self._status.is_synced,
            problem=source.problem,
            unseen=unseen,
        )
        if status != self._status:
            self._status = status
            if status.is_synced:
                self._synced.set()
            self._feeds.publish(time.time(), (), status)


def _trim_event(event: Event) -> Event:
    """Keep the part of an Event that a row shows: clusters have many of them."""
    meta = event.metadata
    return Event(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            creation_timestamp=meta.creation_timestamp,
        ),
        involved_object=event.involved_object,
        reason=event.reason[:_LONGEST_MESSAGE],
        message=event.message[:_LONGEST_MESSAGE],
        type=event.type,
        source=event.source,
        first_timestamp=event.first_timestamp,
        last_timestamp=event.last_timestamp,
        event_time=event.event_time,
        count=event.count,
        reporting_component=event.reporting_component,
    )
