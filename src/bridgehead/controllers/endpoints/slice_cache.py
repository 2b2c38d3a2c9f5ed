"""Cache of the EndpointSlices that one controller manages, including its own newest writes.

An informer receives a write after its writer has the answer. A controller that planned from the informer's copy in
between would create the same slice twice. Therefore the API server's answer counts until the informer has caught up.
"""

from __future__ import annotations

from bridgehead.client import Informer
from bridgehead.controllers.read_your_writes import version_of
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL, EndpointSlice
from bridgehead.objects.meta import ObjectKey, version_number

_INDEX = "service"


class SliceCache:
    """Slices whose managed-by label is `manager`."""

    def __init__(self, informer: Informer[EndpointSlice], manager: str) -> None:
        self._informer = informer
        self._manager = manager
        self._written: dict[ObjectKey, dict[str, EndpointSlice]] = {}
        self._deleted: dict[ObjectKey, set[str]] = {}
        informer.add_index(_INDEX, lambda item: (str(service_of(item)),))

    def of(self, service: ObjectKey) -> list[EndpointSlice]:
        """Return the Service's slices sorted by name, without those that are being deleted."""
        found = {
            item.metadata.name: item for item in self._informer.by_index(_INDEX, str(service)) if self.is_managed(item)
        }
        for name, mine in tuple(self._written.get(service, {}).items()):
            if version_number(self._informer.resource_version) >= version_of(mine):
                self._forget_written(service, name)
            else:
                found[name] = mine
        deleted = self._deleted.get(service, set())
        return [
            item
            for _, item in sorted(found.items())
            if item.metadata.deletion_timestamp is None and item.metadata.uid not in deleted
        ]

    def is_managed(self, item: EndpointSlice) -> bool:
        return item.metadata.labels.get(MANAGED_BY_LABEL) == self._manager

    def record_write(self, item: EndpointSlice) -> None:
        """Record the API server's answer to a create or update."""
        seen = self._informer.get(item.key)
        if seen is None or version_of(seen) < version_of(item):
            self._written.setdefault(service_of(item), {})[item.metadata.name] = item

    def record_deletion(self, item: EndpointSlice) -> None:
        """Record that the API server has accepted a deletion."""
        service = service_of(item)
        self._forget_written(service, item.metadata.name)
        seen = self._informer.get(item.key)
        if seen is not None and seen.metadata.uid == item.metadata.uid:
            self._deleted.setdefault(service, set()).add(item.metadata.uid)

    def foreign_changes(self, old: EndpointSlice | None, new: EndpointSlice | None) -> set[ObjectKey]:
        """Handle an informer's event: return the Services to reconcile, none for a change by this controller."""
        services = {service_of(item) for item in (old, new) if item is not None and self.is_managed(item)}
        if new is None:
            if old is not None and self._is_own_deletion(old):
                return set()
        elif (mine := self._written.get(service_of(new), {}).get(new.metadata.name)) is not None:
            if version_of(new) >= version_of(mine):
                self._forget_written(service_of(new), new.metadata.name)
            if version_of(new) <= version_of(mine):
                return set()
        return services

    def _is_own_deletion(self, item: EndpointSlice) -> bool:
        service = service_of(item)
        deleted = self._deleted.get(service, set())
        if item.metadata.uid not in deleted:
            return False
        deleted.discard(item.metadata.uid)
        if not deleted:
            del self._deleted[service]
        return True

    def _forget_written(self, service: ObjectKey, name: str) -> None:
        written = self._written.get(service)
        if written is not None:
            written.pop(name, None)
            if not written:
                del self._written[service]


def service_of(item: EndpointSlice) -> ObjectKey:
    return ObjectKey(item.metadata.namespace, item.service_name)
