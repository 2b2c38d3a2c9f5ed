"""Objects as this process knows them at the latest: from the informer, or from the answer to its own write.

Used by the workload controllers and the endpoints controller; `slice_cache` does the same for slices, which are created
and deleted too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from bridgehead.client import ApiClient, Informer
from bridgehead.objects.meta import Object, ObjectKey, version_number

T = TypeVar("T", bound=Object)


def version_of(obj: Object) -> int:
    """The object's resource version as a number."""
    return version_number(obj.metadata.resource_version)


class Latest(Generic[T]):
    """Read your own writes: the newer of what an informer has seen and what a write was answered with.

    Without it a controller woken between its write and the informer's event would decide, and write, the same again.
    """

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer
        self._mine: dict[ObjectKey, T] = {}
        informer.on_change(self._changed)

    def remember(self, written: T) -> T:
        """Note the answer to a write, and hand it on."""
        seen = self._informer.get(written.key)
        if seen is not None and version_of(seen) < version_of(written):
            self._mine[written.key] = written
        return written

    async def patch_status(self, client: ApiClient, obj: T, patch: Mapping[str, Any]) -> T:
        """Send a merge patch to the subresource `status`, note the answer, and hand it on. Raises ClientError."""
        metadata = obj.metadata
        return self.remember(
            await client.patch(self._informer.kind, metadata.name, metadata.namespace, patch, subresource="status")
        )

    def get(self, key: ObjectKey) -> T | None:
        seen = self._informer.get(key)
        return None if seen is None else self.of(seen)

    def of(self, seen: T) -> T:
        """The newest known version of an object that the informer has."""
        mine = self._mine.get(seen.key)
        return seen if mine is None else mine

    def _changed(self, old: T | None, new: T | None) -> None:
        if new is None:
            if old is not None:
                self._mine.pop(old.key, None)
        elif (mine := self._mine.get(new.key)) is not None and version_of(new) >= version_of(mine):
            del self._mine[new.key]
