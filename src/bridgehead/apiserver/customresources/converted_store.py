"""A store whose lists and watches have the objects of one version of a custom resource."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

from bridgehead.storage import Change, FieldValue, Key, Record, Store, Watch

Snapshot = tuple[int, list[Record]]


class Serves(Protocol):
    """The part of a converter that a watch uses."""

    def is_current(self, record: Record) -> bool: ...

    async def served(self, records: Sequence[Record]) -> list[Record]: ...


class View:
    """The store for one list or watch. `snapshot` is a revision and the converted records at this time.

    None: the records of the store are served as they are stored.
    """

    def __init__(
        self, store: Store, snapshot: Snapshot | None, open_watch: Callable[[Store, str, str | None, int], Watch]
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._open_watch = open_watch

    @property
    def revision(self) -> int:
        return self._store.revision if self._snapshot is None else self._snapshot[0]

    def get(self, key: Key) -> Record | None:
        return self._store.get(key)

    def list(
        self, resource: str, namespace: str | None = None, *, limit: int = 0, after: tuple[str, str] | None = None
    ) -> list[Record]:
        if self._snapshot is None:
            return self._store.list(resource, namespace, limit=limit, after=after)
        records = self._snapshot[1]
        start = 0
        if after is not None:
            start = bisect_right(records, after, key=lambda record: (record.key.namespace, record.key.name))
        return records[start : start + limit] if limit else records[start:]

    def watch(
        self, resource: str, namespace: str | None = None, *, since: int, field: FieldValue | None = None
    ) -> Watch:
        return self._open_watch(self._store, resource, namespace, since)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class ConvertedWatch:
    """A watch of converted objects. A read that is cancelled during a conversion loses nothing."""

    def __init__(self, watch: Watch, converter: Serves) -> None:
        self._watch = watch
        self._changes = aiter(watch)
        self._converter = converter
        self._waiting: list[Change] | None = None

    @property
    def is_converting(self) -> bool:
        """Whether changes have been read from the store, but have not been passed on."""
        return self._waiting is not None

    def __aiter__(self) -> AsyncIterator[list[Change]]:
        return self

    async def __anext__(self) -> list[Change]:
        if self._waiting is None:
            self._waiting = await anext(self._changes)
        changes = await self._converted(self._waiting)
        self._waiting = None
        return changes

    def pending(self) -> list[Change]:
        """Return the changes that have not been read yet, as they are stored."""
        return self._watch.pending()

    def finish(self) -> None:
        self._watch.finish()

    def close(self) -> None:
        self._watch.close()

    async def _converted(self, changes: list[Change]) -> list[Change]:
        records = [record for change in changes for record in (change.record, change.previous) if record is not None]
        if all(map(self._converter.is_current, records)):
            return changes
        served = iter(await self._converter.served(records))
        return [
            Change(change.type, next(served), None if change.previous is None else next(served)) for change in changes
        ]
