"""A store that lives as long as its process: for tests, and for labs that are thrown away.

Its reads and watches are also those of `SqliteStore`, which differs only in what happens before a write is visible.
"""

from __future__ import annotations

from .errors import StoreBroken
from .history import DEFAULT_BYTES, DEFAULT_CHANGES, History, LogWatch
from .state import Batch, Create, Delete, State, Update, Write
from .store import Facts, JsonObject, Key, Record


class MemoryStore:
    """See `store.Store`. A write is "durable" as soon as it is in memory."""

    def __init__(self, *, history_changes: int = DEFAULT_CHANGES, history_bytes: int = DEFAULT_BYTES) -> None:
        self._state = State()
        self._history = History(history_changes, history_bytes)
        self._closed = False

    @property
    def revision(self) -> int:
        return self._state.revision

    def get(self, key: Key) -> Record | None:
        return self._state.get(key)

    def list(
        self, resource: str, namespace: str | None = None, *, limit: int = 0, after: tuple[str, str] | None = None
    ) -> list[Record]:
        return self._state.list(resource, namespace, limit, after)

    def is_claimed(self, claim: str) -> bool:
        return self._state.holder(claim) is not None

    async def create(self, key: Key, value: JsonObject, facts: Facts) -> Record:
        return await self._write(Create(key, value, facts))

    async def update(self, key: Key, value: JsonObject, facts: Facts, *, expected: int) -> Record:
        return await self._write(Update(key, value, facts, expected))

    async def delete(self, key: Key, *, expected: int | None = None) -> Record:
        return await self._write(Delete(key, expected))

    def watch(self, resource: str, namespace: str | None = None, *, since: int) -> LogWatch:
        return self._history.watch(resource, namespace, since, self._state.revision)

    async def close(self) -> None:
        self._closed = True
        self._history.close()

    async def _write(self, write: Write) -> Record:
        self._check_open()
        batch = Batch(self._state)
        change = batch.add(write)
        self._publish(batch)
        return change.record

    def _publish(self, batch: Batch) -> None:
        self._state.apply(batch.changes)
        self._history.publish(batch.changes)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreBroken("the store has been closed")
