"""Index of an informer's objects by their controller. Used by the workload controllers."""

from __future__ import annotations

from typing import Generic, TypeVar

from bridgehead.client import Informer
from bridgehead.objects.meta import Object

T = TypeVar("T", bound=Object)


_INDEX = "manager"


def _manager(obj: Object) -> tuple[str, ...]:
    """Index function: the uid of an object's controller, or its namespace without one. The two cannot be equal."""
    owner = obj.metadata.controller
    return (owner.uid,) if owner else (f"namespace/{obj.metadata.namespace}",)


class OwnedIndex(Generic[T]):
    """The objects of an informer by controller, and those without a controller by namespace."""

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer
        informer.add_index(_INDEX, _manager)

    def of(self, uid: str) -> list[T]:
        """Return the objects that the owner with `uid` manages."""
        return self._informer.by_index(_INDEX, uid)

    def candidates(self, owner: Object) -> list[T]:
        """Return the objects that `owner` manages, and those of its namespace that it might adopt."""
        orphans = self._informer.by_index(_INDEX, f"namespace/{owner.metadata.namespace}")
        return [*self._informer.by_index(_INDEX, owner.metadata.uid), *orphans]
