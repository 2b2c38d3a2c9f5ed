"""The interface of a store, and its guarantees.

One increasing revision counts every write to the whole store and is the `resourceVersion` of the written object; on
etcd, an object and its companions have the same one. A write returns only when it is durable, and watchers see writes
in the order of their revisions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from .records import Change, Companions, Facts, FieldValue, JsonObject, Key, Record


class Watch(Protocol):
    """A stream of changes, each delivered once, in order. The reader must close it."""

    def __aiter__(self) -> AsyncIterator[list[Change]]:
        """Yield the changes since the watch's revision, in batches of at least one change.

        Ends when the watch or its store is closed. Raises `Overflow` when the reader is too slow to be kept.
        """
        ...

    def finish(self) -> None:
        """End the stream when all changes so far have been read."""
        ...

    def pending(self) -> list[Change]:
        """Return the changes that have not been read yet, without waiting. Raises `Overflow` as iteration does."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """A store. Reads come from memory and never wait. `on_commit` is called with the seconds that a commit took."""

    on_commit: Callable[[float], None]

    @property
    def revision(self) -> int:
        """The revision of the newest durable write."""
        ...

    @property
    def failure(self) -> str | None:
        """Why the newest commit failed; None if it did not."""
        ...

    async def catch_up(self) -> None:
        """Wait until reads see every write that was acknowledged before this call, also by other servers on the store.

        Raises `StoreBroken`.
        """
        ...

    def get(self, key: Key) -> Record | None: ...

    def latest(self, key: Key) -> Record | None:
        """Return the object's newest state, which may not be durable yet. For a write that depends on it.

        This write is committed after what it depends on, or fails with it. After a `Conflict`, the state is at least as
        new as the one that refused the write. The state must not be shown to a client in any other way before `settle`.
        """
        ...

    async def settle(self) -> None:
        """Wait until all states that `latest` has returned are durable. Raises `StoreBroken` when they are lost."""
        ...

    def list(
        self, resource: str, namespace: str | None = None, *, limit: int = 0, after: tuple[str, str] | None = None
    ) -> list[Record]:
        """Return records ordered by (namespace, name), at most `limit` (0: all), after the name `after`."""
        ...

    def list_latest(self, resource: str, namespace: str) -> Sequence[Record]:
        """Return the newest states of a namespace's objects in any order, for a write that depends on them.

        They are of one state with what `latest` returns, if nothing is awaited in between, and as `latest` not for
        clients.
        """
        ...

    def count(self, resource: str) -> int:
        """Return the number of records of a resource."""
        ...

    def list_at(
        self, revision: int, resource: str, namespace: str | None = None, *, after: tuple[str, str] | None = None
    ) -> Sequence[Record]:
        """Return the records as they were at a revision, ordered as in `list`.

        Raises `TooOld` when the history does not reach back to it, or when it is above `revision`.
        """
        ...

    def is_claimed(self, claim: str) -> bool:
        """Whether an object holds a claim, also by a write that is not durable yet."""
        ...

    def is_stale(self, key: Key) -> bool:
        """Whether an update is to write the object even if nothing in it changes, so that it gets its current key."""
        ...

    async def create(
        self, key: Key, value: JsonObject, facts: Facts, *, also: Companions = (), max_bytes: int = 0
    ) -> Record:
        """Store a new object. Raises `AlreadyExists`, `ClaimTaken`, `Conflict`, `ValueTooLarge`.

        `also` are writes of other objects that this and the other methods carry out in the same commit, or not at all.
        They become visible together, in the order of their revisions, which is that of `also` after the object itself.
        `ClaimTaken` is also raised when one of them creates an object that exists, and `Conflict` when one of them
        updates an object that has another revision than it expects, or that is gone; an `Unchanged` in `also`
        raises it in the same cases. `max_bytes` bounds the encoded
        object; 0: no bound.
        """
        ...

    async def update(
        self, key: Key, value: JsonObject, facts: Facts, *, expected: int, also: Companions = (), max_bytes: int = 0
    ) -> Record:
        """Replace the object if its revision is still `expected`.

        Raises `NotFound`, `Conflict`, `ClaimTaken`, `ValueTooLarge`.
        """
        ...

    async def delete(self, key: Key, *, expected: int | None = None, also: Companions = ()) -> Record:
        """Remove an object; return its last state with the deletion's revision. Raises `NotFound`, `Conflict`."""
        ...

    def watch(
        self, resource: str, namespace: str | None = None, *, since: int, field: FieldValue | None = None
    ) -> Watch:
        """Open a watch for changes with revisions above `since`.

        With `field`, the watch may leave out the changes of objects that do not have this value before or after.

        Raises `TooOld` when the history does not reach back to `since`, so that the watcher has to list again, or when
        `since` is above `revision`.
        """
        ...

    async def close(self) -> None: ...
