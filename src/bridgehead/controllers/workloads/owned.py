"""Objects by who manages them, kept up to date by an informer. Used by the workload controllers."""

from __future__ import annotations

from typing import Generic, TypeVar

from bridgehead.client import Informer
from bridgehead.objects.meta import Object

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
