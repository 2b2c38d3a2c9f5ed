"""The IPAddress objects of Services' addresses (decision 24).

`IpAddresses` creates missing objects again, and deletes those that no Service has. Objects that users made stay.
Source: Kubernetes pkg/registry/core/service/ipallocator/controller/repairip.go.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resource import copied
from bridgehead.apiserver.resources.services import IP_ADDRESSES, MANAGER, MANAGER_LABEL, address_object
from bridgehead.storage import Change, Key, Overflow, Record, StorageError, TooOld

from .deletion import DeleteOptions
from .registry import Registry
from .write import Write

log = logging.getLogger(__name__)

_PATH = ("networking.k8s.io", "v1", "ipaddresses")
_PIECE = 500  # objects, after which other tasks run

_decode = msgspec.json.decode


class IpAddresses:
    """The controller of IPAddress objects."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        while True:
            watch = self._store.watch(IP_ADDRESSES, since=self._store.revision)
            try:
                await self.repair()
                async for changes in watch:
                    await self._restore(changes)
                return
            except (Overflow, TooOld):
                continue
            finally:
                watch.close()

    async def repair(self) -> None:
        """Create the missing IPAddress objects of all Services, and delete those whose Service has another address."""
        for number, record in enumerate(self._store.list("services"), start=1):
            if number % _PIECE == 0:
                await asyncio.sleep(0)
            for address in _held(record):
                await self._restore_one(address, record.key)
        for number, record in enumerate(self._store.list(IP_ADDRESSES), start=1):
            if number % _PIECE == 0:
                await asyncio.sleep(0)
            if record.facts.labels.get(MANAGER_LABEL) == MANAGER and not self._is_held(record):
                await self._remove(record)

    async def _restore(self, changes: list[Change]) -> None:
        for change in changes:
            if change.type == "DELETED" and (owner := _owner(change.record.value)) is not None:
                await self._restore_one(change.record.key.name, owner)

    async def _restore_one(self, address: str, owner: Key) -> None:
        resource, service = self._registry.find(*_PATH), self._store.get(owner)
        if resource is None or service is None or address not in _held(service):
            return
        if self._store.get(Key(IP_ADDRESSES, "", address)) is not None:
            return
        try:
            await self._registry.create(Write(resource), copied(address_object(address, owner.namespace, owner.name)))
        except (ApiStatus, StorageError) as error:
            log.warning("cannot restore the IPAddress %s: %s", address, error)

    def _is_held(self, record: Record) -> bool:
        owner = _owner(record.value)
        service = None if owner is None else self._store.get(owner)
        return service is not None and record.key.name in _held(service)

    async def _remove(self, record: Record) -> None:
        resource = self._registry.find(*_PATH)
        if resource is None:
            return
        try:
            options = DeleteOptions(resource_version=str(record.revision))
            await self._registry.delete(Write(resource, "", record.key.name), options)
        except (ApiStatus, StorageError) as error:
            log.warning("cannot delete the IPAddress %s: %s", record.key.name, error)


def _held(service: Record) -> list[str]:
    """Return the addresses that a Service holds."""
    prefix = "clusterip/"
    return [claim.removeprefix(prefix) for claim in service.facts.claims if claim.startswith(prefix)]


def _owner(value: bytes) -> Key | None:
    """Return the Service that an IPAddress belongs to."""
    parent = _decode(value).get("spec", {}).get("parentRef", {})
    if parent.get("resource") != "services" or parent.get("group"):
        return None
    return Key("services", parent.get("namespace", ""), parent.get("name", ""))
