"""A store in memory, for tests and for labs without persistent state.

`SqliteStore` inherits reads and watches, and makes a write durable before it is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .content import Batch, State
from .errors import StoreBroken
from .records import Companions, Create, Delete, Facts, FieldValue, JsonObject, Key, Record, Update, Write
from .watch_cache import DEFAULT_BYTES, DEFAULT_CHANGES, History, LogWatch


def _ignore(_: float) -> None: ...


class MemoryStore:
    """A store in memory; see `store.Store`. A write counts as durable as soon as it is in memory."""

    def __init__(
        self, *, history_changes: int = DEFAULT_CHANGES, history_bytes: int = DEFAULT_BYTES, revision: int = 0
    ) -> None:
        """`revision`: that of the empty store, above those of an earlier store whose watches may come back."""
        self._state = State()
        self._state.load((), revision)
        self._history = History(history_changes, history_bytes)
        self._history.begin(revision)
        self._closed = False
        self.on_commit: Callable[[float], None] = _ignore

    @property
    def revision(self) -> int:
        return self._state.revision

    @property
    def failure(self) -> str | None:
        return None

    async def catch_up(self) -> None:
        """Do nothing: this server alone writes to its store."""

    def get(self, key: Key) -> Record | None:
        return self._state.get(key)

    def latest(self, key: Key) -> Record | None:
        return self._state.get(key)

    async def settle(self) -> None:
        """Do nothing: no write waits."""

    def list(
        self, resource: str, namespace: str | None = None, *, limit: int = 0, after: tuple[str, str] | None = None
    ) -> list[Record]:
        return self._state.list(resource, namespace, limit, after)

    def list_latest(self, resource: str, namespace: str) -> Sequence[Record]:
        return self._state.list(resource, namespace)

    def count(self, resource: str) -> int:
        return self._state.count(resource)

    def list_at(
        self, revision: int, resource: str, namespace: str | None = None, *, after: tuple[str, str] | None = None
    ) -> Sequence[Record]:
        later = self._history.changes_since(resource, revision, self._state.revision)
        return self._state.list_before(later, resource, namespace, after)

    def is_claimed(self, claim: str) -> bool:
        return self._state.holder(claim) is not None

    def is_stale(self, key: Key) -> bool:
        return False

    async def create(
        self, key: Key, value: JsonObject, facts: Facts, *, also: Companions = (), max_bytes: int = 0
    ) -> Record:
        return await self._write(Create(key, value, facts, also, max_bytes=max_bytes))

    async def update(
        self, key: Key, value: JsonObject, facts: Facts, *, expected: int, also: Companions = (), max_bytes: int = 0
    ) -> Record:
        return await self._write(Update(key, value, facts, expected, also, max_bytes))

    async def delete(self, key: Key, *, expected: int | None = None, also: Companions = ()) -> Record:
        return await self._write(Delete(key, expected, also))

    def watch(
        self, resource: str, namespace: str | None = None, *, since: int, field: FieldValue | None = None
    ) -> LogWatch:
        return self._history.watch(resource, namespace, since, self._state.revision, field)

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
