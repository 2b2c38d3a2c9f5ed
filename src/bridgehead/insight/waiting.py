"""Wait until a Service is programmed on every node (see `programmed`), for `bridgehead wait`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from bridgehead.client import ApiClient, Informer, running
from bridgehead.objects import progress
from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import service_selector
from bridgehead.objects.kinds import ENDPOINT_SLICES, ENDPOINTS, LEASES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey, version_number
from bridgehead.objects.progress import Versions, latest_version

from .programmed import count_pending, count_ready, describe, find_lacking, why_not_proxied

LIST_SECONDS = 10.0
_POLL_SECONDS = 1.0  # the expiry of a Lease is no event

Report = Callable[[str], None]


class NotProgrammed(Exception):
    """The Service is not programmed, or not in time. The text is one line with the reason."""


async def wait_programmed(client: ApiClient, key: ObjectKey, seconds: float, report: Report) -> str:
    """Wait until the Service is programmed everywhere. Returns a summary line for the user.

    `report` is called with what is missing meanwhile. `seconds` 0: check once. Raises `NotProgrammed`, ClientError.
    """
    service = await client.get(SERVICES, key.name, key.namespace)
    if why := why_not_proxied(service):
        return f"service/{key.name}: {why}, no node has anything to program"
    wait = _Wait(client, service)
    async with wait.following():
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await wait.synced()
        except TimeoutError:
            raise NotProgrammed("the API server did not list the objects in time") from None
        try:
            async with asyncio.timeout(seconds):
                while (missing := wait.missing()) != "":
                    report(missing)
                    await wait.changed()
        except TimeoutError:
            after = f" after {seconds:g} s" if seconds else ""
            raise NotProgrammed(f"service/{key.name} is not programmed{after}: {wait.missing()}") from None
        return wait.summary()


class _Wait:
    """Informers of all objects that affect one Service."""

    def __init__(self, client: ApiClient, service: Service) -> None:
        self._key, self._selector = service.key, service.spec.selector
        namespace, name = service.key
        self._services = Informer(client, SERVICES, namespace, field_selector=f"metadata.name={name}")
        self._slices = Informer(client, ENDPOINT_SLICES, namespace, service_selector(name))
        selector = ",".join(f"{label}={value}" for label, value in sorted(self._selector.items()))
        self._pods = Informer(client, PODS, namespace, selector)
        self._nodes = Informer(client, NODES)
        self._leases = Informer(client, LEASES, progress.NAMESPACE, progress.SELECTOR)
        self._endpoints = Informer(client, ENDPOINTS, namespace, field_selector=f"metadata.name={name}")
        self._informers: list[Informer[Any]] = [self._services, self._slices, self._nodes, self._leases]
        self._informers.append(self._pods if selector else self._endpoints)  # the source of the slices
        self._change_event = asyncio.Event()
        self._wanted: Versions | None = None

    def following(self) -> AbstractAsyncContextManager[None]:
        """Run the informers inside the block."""
        for informer in self._informers:
            informer.on_change(self._changed)
        return running(*self._informers)

    def _changed(self, old: object, new: object) -> None:
        self._change_event.set()

    async def synced(self) -> None:
        """Wait until all informers have listed their objects."""
        for informer in self._informers:
            await informer.wait_synced()

    async def changed(self) -> None:
        """Wait until `missing` may have changed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await self._change_event.wait()
        self._change_event.clear()

    def missing(self) -> str:
        """Return what is missing, as text; "": nothing. Raises `NotProgrammed` if it can never be complete."""
        service = self._services.get(self._key)
        if service is None:
            raise NotProgrammed(f"service/{self._key.name} was deleted meanwhile")
        if service.spec.selector != self._selector:
            raise NotProgrammed(f"service/{self._key.name} was given another selector meanwhile")
        if self._wanted is None:
            endpoints = self._endpoints.get(self._key)
            pods, slices, nodes = self._pods.items(), self._slices.items(), self._nodes.items()
            if pending := count_pending(service, pods, endpoints, slices, nodes):
                return f"its endpoint slices are not up to date yet ({pending} changes)"
            # The target is the present state: a Service that changes all the time would never be done otherwise.
            version = version_number(service.metadata.resource_version)
            self._wanted = Versions(version, latest_version(self._slices.items()))
        if not any(node.is_ready for node in self._nodes.items()):
            return "no node is ready"
        return describe(find_lacking(self._nodes.items(), self._leases.items(), self._wanted, time.time(), self._key))

    def summary(self) -> str:
        nodes = sum(node.is_ready for node in self._nodes.items())
        ready = count_ready(self._slices.items())
        return (
            f"service/{self._key.name} is programmed on {nodes} node{'' if nodes == 1 else 's'},"
            f" with {ready} ready endpoint{'' if ready == 1 else 's'}"
        )
