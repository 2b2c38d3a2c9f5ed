"""The storage interface: what the API server asks of a store, and what it may rely on.

One increasing revision counts every write to the whole store and is the `resourceVersion` of what was
written. A write returns only when it is durable, and watchers see writes in the order of their revisions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

JsonObject = dict[str, Any]


class Key(NamedTuple):
    """Where an object lives. `resource` is `services` or `deployments.apps`; `namespace` may be ""."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What the store knows of an object without decoding it.

    `claims` are names only one stored object may hold at a time, across all resources (`clusterip/10.96.0.9`,
    `nodeport/30080`). They are taken, exchanged and released in the same commit as the object's own write, which
    is what makes address and port allocation atomic, also with several API servers over one store.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    claims: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Record:
    """A stored object: `value` is its finished JSON, `metadata.resourceVersion` included."""

    key: Key
    revision: int
    value: bytes
    facts: Facts


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Change:
    """One write as watchers see it. `type` is ADDED, MODIFIED or DELETED.

    `previous` is what stood there before, so that a watcher with a selector can tell an object that left its selection.
    A DELETED change's `record` has the last state with the deletion's revision.
    All watchers get the same Change, and two are equal only when they are one: what is derived from a Change (a table
    row) may be kept in a `weakref.WeakKeyDictionary`.
    """

    type: str
    record: Record
    previous: Record | None = None


class Watch(Protocol):
    """A stream of changes, each delivered once, in order. Close it when done."""

    def __aiter__(self) -> AsyncIterator[list[Change]]:
        """Yield what has happened since, in batches of at least one change.

        Ends when the watch or its store is closed. Raises `Overflow` when the reader is too slow to be kept.
        """
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """See the module's docstring. Reads come from memory and never wait."""

    @property
    def revision(self) -> int:
        """The revision of the newest durable write."""
        ...

    def get(self, key: Key) -> Record | None: ...

    def list(
        self, resource: str, namespace: str | None = None, *, limit: int = 0, after: tuple[str, str] | None = None
    ) -> list[Record]:
        """Records ordered by (namespace, name), at most `limit` (0: all), beginning behind `after`."""
        ...

    def is_claimed(self, claim: str) -> bool: ...

    async def create(self, key: Key, value: JsonObject, facts: Facts) -> Record:
        """Raises `AlreadyExists`, `ClaimTaken`."""
        ...

    async def update(self, key: Key, value: JsonObject, facts: Facts, *, expected: int) -> Record:
        """Replace the object if its revision is still `expected`. Raises `NotFound`, `Conflict`, `ClaimTaken`."""
        ...

    async def delete(self, key: Key, *, expected: int | None = None) -> Record:
        """Remove it; the result is its last state with the deletion's revision. Raises `NotFound`, `Conflict`."""
        ...

    def watch(self, resource: str, namespace: str | None = None, *, since: int) -> Watch:
        """Changes of revisions above `since`.

        Raises `TooOld` when the history does not reach back to it, also because `since` is of another store's life
        (above `revision`): either way the watcher has to list again.
        """
        ...

    async def close(self) -> None: ...
