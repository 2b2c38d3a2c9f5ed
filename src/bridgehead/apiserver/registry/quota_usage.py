"""The status of ResourceQuotas: what the objects of their namespaces use.

`QuotaUsage` follows the stored quotas, and the objects of those resources that any quota counts. A change that matters
makes it count the namespace again. Admission counts new objects in the commits that store them
(`admission/resource_quota.py`). A count is of one state of the store, and is written only if the quota still has the
revision of that state, so that it never undoes a charge.
Source: Kubernetes pkg/controller/resourcequota.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import msgspec

from bridgehead.apiserver.admission.resource_quota import QUOTAS
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.fieldmanagement.managers import Writer
from bridgehead.apiserver.quotas.checking import count_quota, counted_resources
from bridgehead.apiserver.quotas.usage import usage_of
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Change, Key, Overflow, Record, StorageError, TooOld

from .registry import Registry
from .write import Write

log = logging.getLogger(__name__)

_WRITER = Writer("kube-controller-manager", subresource="status")
_RETRY_SECONDS = 1.0
# After this many counts that other servers' charges overtook, and this time, the namespace is counted again.
_ATTEMPTS = 3
_OVERTAKEN_SECONDS = 0.1

_decode = msgspec.json.decode


class QuotaUsage:
    """The controller of the quotas' status."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        # Resources that a quota counts, by its namespace and name.
        self._counted: dict[tuple[str, str], set[str]] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._stale: set[str] = set()
        self._woken = asyncio.Event()
        registry.table.on_change(self._table_changed)

    async def run(self) -> None:
        """Keep the status of all quotas until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._count())
                follow = partial(self._follow, QUOTAS, self._read_all, self._quota_changed)
                await follow(tasks)
        finally:
            self._followers.clear()

    # --- Changes --------------------------------------------------------------------------------------

    async def _follow(
        self,
        resource: str,
        begin: Callable[[asyncio.TaskGroup], None],
        changed: Callable[[asyncio.TaskGroup, Change], None],
        tasks: asyncio.TaskGroup,
    ) -> None:
        """Call `begin`, then `changed` for each change of a resource; begin again when the watch falls behind."""
        while True:
            watch = self._store.watch(resource, since=self._store.revision)
            try:
                begin(tasks)
                async for changes in watch:
                    for change in changes:
                        changed(tasks, change)
                return
            except (Overflow, TooOld):
                continue
            finally:
                watch.close()

    def _read_all(self, tasks: asyncio.TaskGroup) -> None:
        self._counted = {}
        for record in self._store.list(QUOTAS):
            self._counted[record.key.namespace, record.key.name] = counted_resources(_decode(record.value))
            self._mark(record.key.namespace)
        self._follow_counted(tasks)

    def _quota_changed(self, tasks: asyncio.TaskGroup, change: Change) -> None:
        key = change.record.key
        if change.type == "DELETED":
            self._counted.pop((key.namespace, key.name), None)
        else:
            quota = _decode(change.record.value)
            before = None if change.previous is None else _decode(change.previous.value)
            hard = quota.get("spec", {}).get("hard", {})
            # Most changes are those that admission made to `used`.
            if before is not None and before["spec"] == quota["spec"] and quota.get("status", {}).get("hard") == hard:
                return
            self._counted[key.namespace, key.name] = counted_resources(quota)
            self._mark(key.namespace)
        self._follow_counted(tasks)

    def _follow_counted(self, tasks: asyncio.TaskGroup) -> None:
        """Follow the resources that quotas count, and no others."""
        wanted = set().union(*self._counted.values())
        for resource in self._followers.keys() - wanted:
            self._followers.pop(resource).cancel()
        for resource in wanted - self._followers.keys():
            begin, changed = partial(self._begin, resource), partial(self._object_changed, resource)
            self._followers[resource] = tasks.create_task(self._follow(resource, begin, changed, tasks))

    def _begin(self, resource: str, tasks: asyncio.TaskGroup) -> None:
        for (namespace, _), counted in self._counted.items():
            if resource in counted:
                self._mark(namespace)

    def _object_changed(self, resource: str, tasks: asyncio.TaskGroup, change: Change) -> None:
        namespace = change.record.key.namespace
        if not self._has_quota(namespace, resource) or namespace in self._stale:
            return
        if change.type == "MODIFIED" and change.previous is not None:
            now = self._registry.clock()
            new, old = (usage_of(resource, _decode(one.value), now) for one in (change.record, change.previous))
            if new == old and not _scope_may_change(change.record, change.previous):
                return
        self._mark(namespace)

    def _has_quota(self, namespace: str, resource: str) -> bool:
        return any(one == namespace and resource in counted for (one, _), counted in self._counted.items())

    def _table_changed(self) -> None:
        """Count again: a quota may name a resource that is defined later."""
        for namespace, _ in self._counted:
            self._mark(namespace)

    def _mark(self, namespace: str) -> None:
        self._stale.add(namespace)
        self._woken.set()

    # --- Counting -------------------------------------------------------------------------------------

    async def _count(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._stale:
                namespace = self._stale.pop()
                try:
                    if not await self.count_namespace(namespace):
                        self._stale.add(namespace)
                        await asyncio.sleep(_OVERTAKEN_SECONDS)
                except (ApiStatus, StorageError) as error:
                    log.warning("cannot update the resource quotas of %s: %s", namespace, error)
                    self._stale.add(namespace)
                    await asyncio.sleep(_RETRY_SECONDS)

    async def count_namespace(self, namespace: str) -> bool:
        """Write the status of a namespace's quotas. False: charges overtook a count; count again.

        Raises `ApiStatus` and `StorageError`.
        """
        return all([await self._count_quota(record.key) for record in self._store.list(QUOTAS, namespace)])

    async def _count_quota(self, key: Key) -> bool:
        for _ in range(_ATTEMPTS):
            # No `await` between the quota and its objects, which are of one state of the store.
            record = self._store.latest(key)
            if record is None:
                return True
            quota = _decode(record.value)
            status = self._counted_status(quota)
            if status == quota.get("status") or await self._write_status(record, status):
                return True
            await self._store.settle()
        return False

    def _counted_status(self, quota: JsonObject) -> JsonObject:
        namespace = quota["metadata"]["namespace"]
        objects = {
            resource: (_decode(record.value) for record in self._store.list_latest(resource, namespace))
            for resource in counted_resources(quota)
            if self._registry.table.versions(resource)
        }
        return count_quota(quota, objects, self._registry.clock())

    async def _write_status(self, record: Record, status: JsonObject) -> bool:
        """Write the status of a quota. False: the quota has another revision by now."""
        version = str(record.revision)

        def change(quota: JsonObject) -> JsonObject:
            return {**quota, "metadata": {**quota["metadata"], "resourceVersion": version}, "status": status}

        write = Write(self._registry.table.by_id(QUOTAS), record.key.namespace, record.key.name, "status", _WRITER)
        try:
            await self._registry.update(write, change)
        except ApiStatus as error:
            if error.code == 409:
                return False
            if error.code != 404:
                raise
        return True


def _scope_may_change(new: Record, old: Record) -> bool:
    """Whether a quota's scopes may select a changed pod differently: they read a few fields of its spec."""
    return bool(_decode(new.value).get("spec") != _decode(old.value).get("spec"))
