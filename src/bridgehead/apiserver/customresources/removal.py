"""The deletion of a definition: first its instances, then, by its finalizer, the definition itself.

Source: apiextensions-apiserver/pkg/controller/finalizer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.registry.deletion import DeleteOptions
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.times import format_time
from bridgehead.storage import Key, Overflow, StorageError

from .definitions import ESTABLISHED, FINALIZER, ID, TERMINATING, is_true, make_condition, with_conditions

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
# Time after which a definition reports that it waits for its instances.
_CHECK_SECONDS = 60.0

_IN_PROGRESS = make_condition(
    TERMINATING,
    is_true=True,
    reason="InstanceDeletionInProgress",
    message="CustomResource deletion is in progress",
)
_STILL_THERE = make_condition(
    TERMINATING,
    is_true=True,
    reason="InstanceDeletionCheck",
    message="could not confirm zero CustomResources remaining: timed out waiting for the condition",
)
_COMPLETED = make_condition(
    TERMINATING, is_true=False, reason="InstanceDeletionCompleted", message="removed all instances"
)
_NEVER_ESTABLISHED = make_condition(
    TERMINATING, is_true=False, reason="NeverEstablished", message="resource was never established"
)

_decode = msgspec.json.decode


class MissingIgnored:
    """A context that suppresses a 404: another client was quicker."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return isinstance(error, ApiStatus) and error.code == 404


async def update_definition(
    registry: Registry, name: str, change: Callable[[JsonObject], JsonObject], subresource: str = ""
) -> None:
    """Change a definition, unless it is gone. Raises `ApiStatus`."""
    with MissingIgnored():
        await registry.update(Write(registry.table.by_id(ID), "", name, subresource), change)


class Removals:
    """The definitions that are being deleted, each with a task."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str) -> None:
        """Delete the instances of a definition, which refuses new ones already. Does nothing if that goes on."""
        running = self._tasks.get(name)
        if running is None or running.done():
            self._tasks[name] = asyncio.create_task(self._remove(name))

    def cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _remove(self, name: str) -> None:
        """Delete the instances of a definition, then the definition."""
        while (crd := self._deleted(name)) is not None:
            try:
                await self._remove_once(name, crd)
            except (ApiStatus, StorageError) as error:
                log.warning("cannot delete the instances of %s: %s", name, error)
                await asyncio.sleep(_RETRY_SECONDS)
        del self._tasks[name]

    def _deleted(self, name: str) -> JsonObject | None:
        """Return a definition that is being deleted and has the finalizer; None for another one of this name."""
        record = self._store.get(Key(ID, "", name))
        crd: JsonObject = {} if record is None else _decode(record.value)
        metadata = crd.get("metadata", {})
        return crd if "deletionTimestamp" in metadata and FINALIZER in metadata.get("finalizers", ()) else None

    async def _remove_once(self, name: str, crd: JsonObject) -> None:
        await self._set_condition(name, _IN_PROGRESS)
        resources = [one for one in self._registry.table.versions(name) if one.definition is not None]
        if is_true(crd, ESTABLISHED) and resources:
            await self._delete_instances(name, resources[0])
            finished = _COMPLETED
        else:
            finished = _NEVER_ESTABLISHED
        now = format_time(self._registry.clock())

        def finish(old: JsonObject) -> JsonObject:
            finalizers = [one for one in old["metadata"].get("finalizers", ()) if one != FINALIZER]
            return {**old, "metadata": {**old["metadata"], "finalizers": finalizers}}

        await update_definition(self._registry, name, lambda old: with_conditions(old, [finished], now), "status")
        await update_definition(self._registry, name, finish)

    async def _set_condition(self, name: str, condition: JsonObject) -> None:
        now = format_time(self._registry.clock())
        await update_definition(self._registry, name, lambda old: with_conditions(old, [condition], now), "status")

    async def _delete_instances(self, name: str, resource: Resource) -> None:
        """Delete all instances and wait until they are gone."""
        watch = self._store.watch(resource.id, since=self._store.revision)
        changes = aiter(watch)
        try:
            for record in self._store.list(resource.id):
                with MissingIgnored():
                    await self._registry.delete(Write(resource, record.key.namespace, record.key.name), DeleteOptions())
            while self._store.list(resource.id, limit=1):
                try:
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await anext(changes)
                except TimeoutError:
                    await self._set_condition(name, _STILL_THERE)
        except (StopAsyncIteration, Overflow):
            await self._delete_instances(name, resource)
        finally:
            watch.close()
