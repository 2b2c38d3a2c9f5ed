"""The plug-in ResourceQuota: what a namespace may use, counted before an object is stored.

A quota's status counts an object from the moment of its admission, so that requests at the same time cannot exceed the
quota together. `Charges` are the new objects that a quota counts and that are not stored yet; `registry/quota_usage.py`
needs them to count again. Source: Kubernetes apiserver/pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.apiserver.errors import conflict, forbidden
from bridgehead.apiserver.quotas.checking import QuotaRefused, check_quota
from bridgehead.apiserver.quotas.usage import UNCOUNTED
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.storage import Conflict, Key, NotFound, Record, Store

from .attributes import CREATE, UPDATE, Attributes, shown_name
from .chain import Plugin

QUOTAS: Final = "resourcequotas"
# An admitted object that is not stored after this time is taken for one whose write failed.
SETTLE_SECONDS: Final = 5.0
_ATTEMPTS = 50
_CHANGING = frozenset({("services", ""), ("persistentvolumeclaims", ""), ("pods", "resize")})

_decode = msgspec.json.decode


class Charges:
    """New objects that quotas count and that are not stored yet. `on_charge` is called with the namespace of each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Objects, and the times until which they are waited for, by the key of a quota and then by that of the object.
        self._objects: dict[Key, dict[Key, tuple[JsonObject, float]]] = {}
        self.on_charge: Callable[[str], None] = lambda namespace: None

    def add(self, quota: Key, key: Key, obj: JsonObject) -> None:
        """Add an object in the same step as the write of the quota that counts it: nobody counts again in between."""
        self._objects.setdefault(quota, {})[key] = (obj, self._clock() + SETTLE_SECONDS)
        self.on_charge(quota.namespace)

    def remove(self, quota: Key, key: Key) -> None:
        waiting = self._objects.get(quota, {})
        waiting.pop(key, None)
        if not waiting:
            self.forget(quota)

    def forget(self, quota: Key) -> None:
        """Forget the objects of a quota that is gone."""
        self._objects.pop(quota, None)

    def waiting(self, quota: Key, resource: str, store: Store) -> dict[Key, JsonObject]:
        """Return the objects of a resource that are not stored yet; forget those that are stored or overdue."""
        found, waiting = {}, self._objects.get(quota, {})
        for key, (obj, until) in tuple(waiting.items()):
            if until <= self._clock() or store.get(key) is not None:
                waiting.pop(key, None)
            elif key.resource == resource:
                found[key] = obj
        if not waiting:
            self.forget(quota)
        return found


class ResourceQuota(Plugin):
    """`now` returns seconds since the epoch."""

    is_static = True

    def __init__(self, store: Store, charges: Charges, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._charges = charges
        self._now = now

    def handles(self, attributes: Attributes) -> bool:
        resource: Resource = attributes.resource
        if not resource.namespaced or resource.id in UNCOUNTED:
            return False
        if attributes.operation == CREATE:
            return not attributes.subresource
        return attributes.operation == UPDATE and (resource.id, attributes.subresource) in _CHANGING

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        quotas = self._store.list(QUOTAS, attributes.namespace)
        if not quotas:
            return
        charged = [record for record in quotas if self._check(record, attributes, obj, old) is not None]
        if attributes.dry_run or not charged:
            return
        for record in charged:
            await self._charge(record, attributes, obj, old)
        if attributes.operation != CREATE:
            self._charges.on_charge(attributes.namespace)

    def _check(
        self, record: Record, attributes: Attributes, obj: JsonObject, old: JsonObject
    ) -> tuple[JsonObject, dict[str, str]] | None:
        """Return the quota and what it has to count; None: nothing. Raises a 403."""
        quota = _decode(record.value)
        try:
            used = check_quota(quota, attributes.resource.id, obj, old, self._now())
        except QuotaRefused as refused:
            name = attributes.name or shown_name(obj)
            raise forbidden(attributes.resource, name, str(refused)) from None
        return None if used is None else (quota, used)

    async def _charge(self, record: Record, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        """Write what the quota counts. Raises a 403 if other requests were faster, or a 409."""
        is_new = attributes.operation == CREATE
        key = Key(attributes.resource.stored.id, attributes.namespace, obj["metadata"]["name"])
        current: Record | None = record
        for _ in range(_ATTEMPTS):
            if current is None:
                return
            checked = self._check(current, attributes, obj, old)
            if checked is None:
                return
            quota, used = checked
            quota["status"] = {**quota.get("status", {}), "used": used}
            if is_new:
                self._charges.add(current.key, key, obj)
            try:
                await self._store.update(current.key, quota, current.facts, expected=current.revision)
                return
            except (Conflict, NotFound):
                if is_new:
                    self._charges.remove(current.key, key)
                current = self._store.latest(record.key)
        raise conflict(attributes.resource, attributes.name or shown_name(obj))
