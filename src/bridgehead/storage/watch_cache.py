"""The newest changes of a store, and the watches that read them.

All watches of a resource read one shared log and hold only their position in it. The cost of a change therefore does
not depend on the number of watches, and a reader that never reads costs no memory: it gets `Overflow` once the log has
dropped changes that it has not read. Used on the event loop only.

A watch of one value of a field, such as the pods of a node, does not even wake up for other changes. While it waits, it
is in an index by this value, and has no position: all changes up to the first one that it is woken for are not its own.
kube-apiserver's watch cache has such indexes for the same watches. Source: apiserver/pkg/storage/cacher/cacher.go.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from .errors import Overflow, TooOld
from .records import Change, FieldValue

DEFAULT_CHANGES = 20_000
DEFAULT_BYTES = 64 * 1024 * 1024
# Bounds of the batch that a reader gets at once. Between batches it can wait for its own client. A batch stays in
# memory until the reader takes the next one, so a stopped reader keeps little.
_BATCH = 500
_BATCH_BYTES = 64 * 1024
# Readers that continue in one turn of the event loop. Each needs about 50 µs for its client.
_WOKEN_AT_ONCE = 100


class History:
    """The newest changes: at most `max_changes`, with at most `max_bytes` of values."""

    def __init__(self, max_changes: int = DEFAULT_CHANGES, max_bytes: int = DEFAULT_BYTES) -> None:
        self._max_changes = max_changes
        self._max_bytes = max_bytes
        self._bytes = 0
        self._order: deque[Change] = deque()
        self._logs: dict[str, _Log] = {}
        self._first = 0

    def begin(self, revision: int) -> None:
        """Set the revision up to which this history has no changes."""
        self._first = revision

    def publish(self, changes: Iterable[Change]) -> None:
        """Append changes and wake every reader that waits for one of them, once."""
        changed_logs: dict[str, _Log] = {}
        for change in changes:
            resource = change.record.key.resource
            log = changed_logs[resource] = self._log(resource)
            log.append(change)
            self._order.append(change)
            self._bytes += len(change.record.value)
        while len(self._order) > self._max_changes or (self._bytes > self._max_bytes and len(self._order) > 1):
            oldest = self._order.popleft()
            self._bytes -= len(oldest.record.value)
            self._logs[oldest.record.key.resource].drop_oldest()
        for log in changed_logs.values():
            log.wake()

    def watch(
        self, resource: str, namespace: str | None, since: int, revision: int, field: FieldValue | None = None
    ) -> LogWatch:
        """Open a watch. Raises `TooOld` when `since` is before the kept changes, or above the store's `revision`."""
        log = self._reaching_back(resource, since, revision)
        return LogWatch(log, namespace, log.position_after(since), field)

    def changes_since(self, resource: str, since: int, revision: int) -> list[Change]:
        """Return the changes of a resource after `since`. Raises `TooOld`, as `watch`."""
        return self._reaching_back(resource, since, revision).after(since)

    def close(self) -> None:
        """End all watches."""
        for log in self._logs.values():
            for watch in tuple(log.watches):
                watch.close()

    def _reaching_back(self, resource: str, since: int, revision: int) -> _Log:
        log = self._log(resource)
        if since > revision:
            raise TooOld(f"revision {since} does not exist yet: the newest is {revision}")
        if since < log.reaches_back_to:
            raise TooOld(f"revision {since} is too old: the history goes back to {log.reaches_back_to}")
        return log

    def _log(self, resource: str) -> _Log:
        log = self._logs.get(resource)
        if log is None:
            log = self._logs[resource] = _Log(self._first)
        return log


class _Log:
    """The kept changes of one resource. Positions count dropped changes, too, so they stay valid after trimming."""

    def __init__(self, reaches_back_to: int) -> None:
        self.reaches_back_to = reaches_back_to
        self.watches: set[LogWatch] = set()
        # The part of `watches` that reads all changes.
        self.readers_of_all: set[LogWatch] = set()
        # Watches of one value that wait, by field, and by namespace and value; and those to be woken.
        self._indexes: dict[str, dict[tuple[str | None, str], set[LogWatch]]] = {}
        self._called: list[LogWatch] = []
        self.oldest = 0
        # Indexing a deque is cheap near its ends, and most readers read near its end.
        self._changes: deque[Change] = deque()

    @property
    def end(self) -> int:
        return self.oldest + len(self._changes)

    def append(self, change: Change) -> None:
        if self._indexes:
            self._call(change, self.end)
        self._changes.append(change)

    def add_waiting(self, watch: LogWatch, field: FieldValue, namespace: str | None) -> None:
        """Put a watch of one value into its index, from which the next change of its own takes it."""
        self._indexes.setdefault(field.name, {}).setdefault((namespace, field.value), set()).add(watch)

    def remove_waiting(self, watch: LogWatch, field: FieldValue, namespace: str | None) -> None:
        """Take a watch out of its index."""
        index, key = self._indexes[field.name], (namespace, field.value)
        index[key].discard(watch)
        self._forget_empty(field.name, key)

    def _call(self, change: Change, position: int) -> None:
        """Take the watches that wait for this change out of the indexes; it will be at `position`."""
        record, previous = change.record, change.previous
        for name in tuple(self._indexes):
            values = {record.facts.fields.get(name), None if previous is None else previous.facts.fields.get(name)}
            for value in values:
                if value is None:
                    continue
                for namespace in (None, record.key.namespace):
                    found = self._indexes.get(name, {}).pop((namespace, value), None)
                    if found is not None:
                        for watch in found:
                            watch.call(position)
                        self._called += found
                        self._forget_empty(name, (namespace, value))

    def _forget_empty(self, name: str, key: tuple[str | None, str]) -> None:
        index = self._indexes[name]
        if not index.get(key, True):
            del index[key]
        if not index:
            del self._indexes[name]

    def drop_oldest(self) -> None:
        self.reaches_back_to = self._changes.popleft().record.revision
        self.oldest += 1

    def position_after(self, revision: int) -> int:
        return self.oldest + bisect_right(self._changes, revision, key=_revision_of)

    def after(self, revision: int) -> list[Change]:
        """Return all changes after a revision."""
        newest_first = takewhile(lambda change: change.record.revision > revision, reversed(self._changes))
        return list(newest_first)[::-1]

    def read(self, position: int) -> list[Change]:
        start = position - self.oldest
        found: list[Change] = []
        size = 0
        for i in range(start, min(start + _BATCH, len(self._changes))):
            change = self._changes[i]
            found.append(change)
            size += len(change.record.value)
            if size >= _BATCH_BYTES:
                break
        return found

    def wake(self) -> None:
        """Wake all waiting readers of the new changes; if there are many, in several turns of the event loop."""
        called, self._called = self._called, []
        _wake_some(iter([watch for watch in (*self.readers_of_all, *called) if watch.is_waiting]))


def _wake_some(watches: Iterator[LogWatch]) -> None:
    woken = list(islice(watches, _WOKEN_AT_ONCE))
    for watch in woken:
        watch.wake()
    if len(woken) == _WOKEN_AT_ONCE:
        asyncio.get_running_loop().call_soon(_wake_some, watches)


def _revision_of(change: Change) -> int:
    return change.record.revision


class LogWatch:
    """A watch of one reader; see `store.Watch`."""

    def __init__(self, log: _Log, namespace: str | None, position: int, field: FieldValue | None = None) -> None:
        self._log = log
        self._namespace = namespace
        self._field = field
        self._position = position
        # Whether this watch waits in an index of the log; its position has no meaning then.
        self._is_indexed = False
        self._closed = False
        self._is_finishing = False
        self._is_behind = False
        self._waiting: asyncio.Future[None] | None = None
        log.watches.add(self)
        if field is None:
            log.readers_of_all.add(self)

    def __aiter__(self) -> LogWatch:
        return self

    async def __anext__(self) -> list[Change]:
        while not self._closed:
            if self._is_behind:
                await asyncio.sleep(0)  # yields to the event loop between two batches
            changes = self._read()
            if changes:
                return changes
            if self._position == self._log.end:
                if self._is_finishing:
                    self.close()
                    break
                await self._wait()
        raise StopAsyncIteration

    def pending(self) -> list[Change]:
        changes: list[Change] = []
        while not self._closed and not self._is_indexed and self._position < self._log.end:
            changes += self._read()
        return changes

    def _read(self) -> list[Change]:
        """Return the next batch of changes in this watch's namespace. Raises `Overflow`."""
        if self._position < self._log.oldest:
            self.close()
            raise Overflow(f"{self._log.oldest - self._position} changes behind what is kept")
        changes = self._log.read(self._position)
        self._position += len(changes)
        self._is_behind = self._position < self._log.end
        if self._namespace is not None:
            changes = [change for change in changes if change.record.key.namespace == self._namespace]
        if self._field is not None:
            changes = [change for change in changes if self._field.is_of(change)]
        return changes

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        if self._field is not None:
            self._log.add_waiting(self, self._field, self._namespace)
            self._is_indexed = True
        try:
            await self._waiting
        finally:
            self._waiting = None
            self._leave_index()

    def call(self, position: int) -> None:
        """Go on at a change, after waiting in an index, which does not have this watch any more."""
        self._is_indexed = False
        self._position = position

    def _leave_index(self) -> None:
        """Go on after all changes so far: none of them is this watch's own, as it is still in the index."""
        if self._is_indexed and self._field is not None:
            self._log.remove_waiting(self, self._field, self._namespace)
            self.call(self._log.end)

    @property
    def is_waiting(self) -> bool:
        return self._waiting is not None

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def finish(self) -> None:
        self._is_finishing = True
        self.wake()

    def close(self) -> None:
        self._closed = True
        self._log.watches.discard(self)
        self._log.readers_of_all.discard(self)
        self.wake()
