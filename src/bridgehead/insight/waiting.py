"""Waits until a Service is programmed on every node; what that means is in `programmed`. For `bridgehead wait`."""

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
from bridgehead.objects.discovery import SERVICE_NAME_LABEL
from bridgehead.objects.kinds import ENDPOINT_SLICES, ENDPOINTS, LEASES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey, version_number
from bridgehead.objects.progress import Versions, latest_version

from .programmed import count_pending, count_ready, describe, find_lacking, why_not_proxied

FIRST_LOOK_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 1.0  # a proxy that falls silent is no event

Report = Callable[[str], None]


class NotProgrammed(Exception):
    """Why it is not, or not in time; one line."""


async def wait_programmed(client: ApiClient, key: ObjectKey, seconds: float, report: Report) -> str:
    """What to tell when the Service is programmed everywhere; `report` is told meanwhile what is waited for.

    `seconds` 0 looks once. Raises `NotProgrammed`, ClientError.
    """
    service = await client.get(SERVICES, key.name, key.namespace)
    if why := why_not_proxied(service):
        return f"service/{key.name}: {why}, no node has anything to program"
    wait = _Wait(client, service)
    async with wait.following():
        try:
            async with asyncio.timeout(FIRST_LOOK_SECONDS):
                await wait.synced()
        except TimeoutError:
            raise NotProgrammed("the API server does not tell what there is") from None
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
    """Everything that bears on one Service, followed."""

    def __init__(self, client: ApiClient, service: Service) -> None:
        self._key, self._selector = service.key, service.spec.selector
        namespace, name = service.key
        self._services = Informer(client, SERVICES, namespace, field_selector=f"metadata.name={name}")
        self._slices = Informer(client, ENDPOINT_SLICES, namespace, f"{SERVICE_NAME_LABEL}={name}")
        selector = ",".join(f"{label}={value}" for label, value in sorted(self._selector.items()))
        self._pods = Informer(client, PODS, namespace, selector)
        self._nodes = Informer(client, NODES)
        self._leases = Informer(client, LEASES, progress.NAMESPACE, progress.SELECTOR)
        self._endpoints = Informer(client, ENDPOINTS, namespace, field_selector=f"metadata.name={name}")
        self._informers: list[Informer[Any]] = [self._services, self._slices, self._nodes, self._leases]
        self._informers.append(self._pods if selector else self._endpoints)  # where the slices come from
        self._news = asyncio.Event()
        self._wanted: Versions | None = None

    def following(self) -> AbstractAsyncContextManager[None]:
        """The copies are kept up to date inside the block."""
        for informer in self._informers:
            informer.on_change(self._changed)
        return running(*self._informers)

    def _changed(self, old: object, new: object) -> None:
        self._news.set()

    async def synced(self) -> None:
        for informer in self._informers:
            await informer.wait_synced()

    async def changed(self) -> None:
        """Until there may be another answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                await self._news.wait()
        self._news.clear()

    def missing(self) -> str:
        """What is still to be done, in words; "" when nothing is. Raises `NotProgrammed` when nothing ever will be."""
        service = self._services.get(self._key)
        if service is None:
            raise NotProgrammed(f"service/{self._key.name} was deleted meanwhile")
        if service.spec.selector != self._selector:
            raise NotProgrammed(f"service/{self._key.name} was given another selector meanwhile")
        if self._wanted is None:
            endpoints = self._endpoints.get(self._key)
            pods, slices, nodes = self._pods.items(), self._slices.items(), self._nodes.items()
            if pending := count_pending(service, pods, endpoints, slices, nodes):
                return f"its endpoint slices do not say yet what its endpoints are ({pending} changes)"
            # What is asked for is the state of this moment; a busy Service would never be done otherwise.
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
