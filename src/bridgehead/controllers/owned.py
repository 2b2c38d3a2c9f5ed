"""Objects by who manages them, kept up to date by an informer. Used by the workload controllers."""

from __future__ import annotations

from typing import Generic, TypeVar

from bridgehead.client import Informer
from bridgehead.objects.meta import Object, ObjectKey

T = TypeVar("T", bound=Object)


_INDEX = "manager"


def _manager(obj: Object) -> tuple[str, ...]:
    """The uid of an object's controller; a namespace (which no uid looks like) for an object without one."""
    owner = obj.metadata.controller
    return (owner.uid,) if owner else (f"namespace/{obj.metadata.namespace}",)


class OwnedIndex(Generic[T]):
    """Which objects of an informer a controller manages, and which of a namespace nobody does."""

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer
        informer.add_index(_INDEX, _manager)

    def of(self, uid: str) -> list[T]:
        """The objects that the owner with `uid` manages."""
        return self._informer.by_index(_INDEX, uid)

    def candidates(self, owner: Object) -> list[T]:
        """What `owner` manages, and what of its namespace it might adopt."""
        orphans = self._informer.by_index(_INDEX, f"namespace/{owner.metadata.namespace}")
        return [*self._informer.by_index(_INDEX, owner.metadata.uid), *orphans]


class Latest(Generic[T]):
    """Read your own writes: the newer of what an informer has seen and what a write was answered with.

    Without it a controller woken between its write and the informer's event would decide, and write, the same again.
    Resource versions of one kind may be compared as numbers (KEP-5504).
    """

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer
        self._mine: dict[ObjectKey, T] = {}
        informer.on_change(self._changed)

    def remember(self, written: T) -> T:
        """Note the answer to a write, and hand it on."""
        seen = self._informer.get(written.key)
        if seen is not None and _version(seen) < _version(written):
            self._mine[written.key] = written
        return written

    def get(self, key: ObjectKey) -> T | None:
        seen = self._informer.get(key)
        return None if seen is None else self.of(seen)

    def of(self, seen: T) -> T:
        """The newest known version of an object that the informer has."""
        mine = self._mine.get(seen.key)
        return seen if mine is None else mine

    def _changed(self, _old: T | None, new: T | None) -> None:
        if new is None:
            if _old is not None:
                self._mine.pop(_old.key, None)
        elif (mine := self._mine.get(new.key)) is not None and _version(new) >= _version(mine):
            del self._mine[new.key]


def _version(obj: Object) -> int:
    text = obj.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0
