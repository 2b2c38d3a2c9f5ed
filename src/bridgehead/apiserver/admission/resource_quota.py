"""The plug-in ResourceQuota: what a namespace may use, counted in the commit of the object.

A quota's status counts an object from the commit in which the object is stored: the update of the quota is one of the
commit's writes, and expects the revision of the quota that was checked. Requests at the same time, also those of other
servers on the same store, therefore cannot exceed the quota together, and status and objects agree at any time.
Source: Kubernetes apiserver/pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.quotas.checking import QuotaRefused, check_quota
from bridgehead.apiserver.quotas.usage import UNCOUNTED
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.storage import Companions, Record, Store, Update

from .attributes import CREATE, UPDATE, Attributes, shown_name
from .chain import Plugin

QUOTAS: Final = "resourcequotas"
_CHANGING = frozenset({("services", ""), ("persistentvolumeclaims", ""), ("pods", "resize")})

_decode = msgspec.json.decode


class ResourceQuota(Plugin):
    """`now` returns seconds since the epoch."""

    is_static = True

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now

    def handles(self, attributes: Attributes) -> bool:
        resource: Resource = attributes.resource
        if not resource.namespaced or resource.id in UNCOUNTED:
            return False
        if attributes.operation == CREATE:
            return not attributes.subresource
        return attributes.operation == UPDATE and (resource.id, attributes.subresource) in _CHANGING

    def charge(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> Companions:
        """Return the updates of the quotas that count more with the object. Raises a 403."""
        updates = (self._charge(record, attributes, obj, old) for record in self._quotas(attributes.namespace))
        return tuple(update for update in updates if update is not None)

    def _quotas(self, namespace: str) -> Iterator[Record]:
        """Return the newest states of the namespace's quotas, which earlier writes may have charged just now."""
        for record in self._store.list(QUOTAS, namespace):
            newest = self._store.latest(record.key)
            if newest is not None:
                yield newest

    def _charge(self, record: Record, attributes: Attributes, obj: JsonObject, old: JsonObject) -> Update | None:
        quota = _decode(record.value)
        try:
            used = check_quota(quota, attributes.resource.id, obj, old, self._now())
        except QuotaRefused as refused:
            name = attributes.name or shown_name(obj)
            raise forbidden(attributes.resource, name, str(refused)) from None
        if used is None:
            return None
        quota["status"] = {**quota.get("status", {}), "used": used}
        return Update(record.key, quota, record.facts, record.revision)
