"""Subscriptions to the updates of a cluster: bounded, shared, and cheap for many subscribers that do not read.

An update is made once for all subscribers of the same tables. A subscription keeps a few updates; if its reader is
slower, they are dropped, and the reader gets a fresh snapshot instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

from .updates import Change, Status, Table, Update

MOST_UPDATES = 32  # that a subscription keeps for its reader
MOST_CHANGES = 5000  # in these updates; then a snapshot is less work

Tables = frozenset[Table]


class Feed:
    """One subscription: an async iterator of updates, of which the first is a snapshot. Leave its `with` to end it."""

    def __init__(self, feeds: Feeds, tables: Tables, bound: int) -> None:
        self.tables = tables
        self._feeds = feeds
        self._bound = bound
        self._updates: deque[Update] = deque()
        self._changes = 0
        self._needs_snapshot = True
        self._event = asyncio.Event()
        self._event.set()
        self._has_ended = False

    def __enter__(self) -> Self:
        self._feeds.add(self)
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._feeds.remove(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Update:
        """Wait for the next update. Ends when the cluster does."""
        await self._event.wait()
        if self._has_ended:
            raise StopAsyncIteration
        if self._needs_snapshot:
            self._needs_snapshot = False
            self._event.clear()
            return self._feeds.snapshot(self.tables)
        update = self._updates.popleft()
        self._changes -= len(update.changes)
        if not self._updates:
            self._event.clear()
        return update

    def put(self, update: Update) -> None:
        """Keep an update for the reader, or let it get a snapshot if it already has too many."""
        if self._needs_snapshot:
            return
        self._changes += len(update.changes)
        if len(self._updates) >= self._bound or self._changes > MOST_CHANGES:
            self.replace_by_snapshot()
            return
        self._updates.append(update)
        self._event.set()

    def replace_by_snapshot(self) -> None:
        """Drop what the reader has not read; it gets a fresh snapshot."""
        self._updates.clear()
        self._changes = 0
        self._needs_snapshot = True
        self._event.set()

    def end(self) -> None:
        self._has_ended = True
        self._event.set()


class Feeds:
    """All subscriptions.

    `snapshot` makes the snapshot of some tables; `on_tables` is called when the wanted ones change.
    """

    def __init__(self, snapshot: Callable[[Tables], Update], on_tables: Callable[[], None]) -> None:
        self._make_snapshot = snapshot
        self._on_tables = on_tables
        self._groups: dict[Tables, set[Feed]] = {}
        self._snapshots: dict[Tables, Update] = {}  # as of now; many views open at once when a server comes back

    @property
    def tables(self) -> Tables:
        """The tables that somebody subscribes to."""
        return frozenset().union(*self._groups)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __iter__(self) -> Iterator[Feed]:
        for group in self._groups.values():
            yield from group

    def add(self, feed: Feed) -> None:
        self._groups.setdefault(feed.tables, set()).add(feed)
        self._on_tables()

    def remove(self, feed: Feed) -> None:
        group = self._groups.get(feed.tables, set())
        group.discard(feed)
        if not group:
            self._groups.pop(feed.tables, None)
            self._snapshots.pop(feed.tables, None)
            self._on_tables()

    def snapshot(self, tables: Tables) -> Update:
        found = self._snapshots.get(tables)
        if found is None:
            found = self._make_snapshot(tables)
            if tables in self._groups:
                self._snapshots[tables] = found
        return found

    def publish(self, at: float, changes: Iterable[Change], status: Status | None) -> None:
        """Send changes, and the status if it is a new one, to all that want them. `at`: epoch seconds."""
        changes = tuple(changes)
        self._snapshots.clear()
        for tables, group in self._groups.items():
            wanted = tuple(change for change in changes if change.table in tables)
            if wanted or status is not None:
                update = Update(at=at, changes=wanted, status=status)
                for feed in group:
                    feed.put(update)

    def refresh(self) -> None:
        """Give every subscriber a fresh snapshot."""
        self._snapshots.clear()
        for feed in self:
            feed.replace_by_snapshot()

    def end(self) -> None:
        for feed in self:
            feed.end()
