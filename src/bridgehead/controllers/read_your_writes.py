"""Read-your-writes cache: the newer of an informer's object and the API server's answer to an own write.

Used by the workload controllers and the Endpoints controller. `slice_cache` also covers creations and deletions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from bridgehead.client import ApiClient, Informer
from bridgehead.objects.meta import Object, ObjectKey, version_number

T = TypeVar("T", bound=Object)


def version_of(obj: Object) -> int:
    """Return the object's resourceVersion as a number."""
    return version_number(obj.metadata.resource_version)


class Latest(Generic[T]):
    """The newest known version of each object.

    Without it, a controller that reconciles between its write and the informer's event would write the same again.
    """

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer
        self._mine: dict[ObjectKey, T] = {}
        informer.on_change(self._changed)

    def remember(self, written: T) -> T:
        """Record the answer to a write, and return it."""
        seen = self._informer.get(written.key)
        if seen is not None and version_of(seen) < version_of(written):
            self._mine[written.key] = written
        return written

    async def patch_status(self, client: ApiClient, obj: T, patch: Mapping[str, Any]) -> T:
        """Send a merge patch of `status`, record the answer, and return it. Raises ClientError."""
        metadata = obj.metadata
        return self.remember(
            await client.patch(self._informer.kind, metadata.name, metadata.namespace, patch, subresource="status")
        )

    def get(self, key: ObjectKey) -> T | None:
        seen = self._informer.get(key)
        return None if seen is None else self.of(seen)

    def of(self, seen: T) -> T:
        """Return the newest known version of an object from the informer."""
        mine = self._mine.get(seen.key)
        return seen if mine is None else mine

    def _changed(self, old: T | None, new: T | None) -> None:
        if new is None:
            if old is not None:
                self._mine.pop(old.key, None)
        elif (mine := self._mine.get(new.key)) is not None and version_of(new) >= version_of(mine):
            del self._mine[new.key]
