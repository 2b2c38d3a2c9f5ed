"""Keeps the webhook registered: writes the own configuration, and adopts those of published manifests.

A published manifest's webhook fails while no pod of its Service is ready, and its failure policy lets nobody create a
pool then. As long as that is so, the Service leads here, by an EndpointSlice, and its webhooks trust this process' CA.
Service and webhooks are given back when a pod is ready, and at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from bridgehead.objects.endpoint_slices import SERVICE_NAME_LABEL, EndpointSlice
from bridgehead.objects.extensions import (
    DEFINITIONS,
    WEBHOOK_CONFIGURATIONS,
    CustomResourceDefinition,
    ValidatingWebhookConfiguration,
)
from bridgehead.objects.kinds import ENDPOINT_SLICES, SERVICES
from bridgehead.objects.meta import ObjectKey

from .deregistration import Registration, give_back
from .registration import (
    ADOPTED_SERVICES,
    CONVERTED_DEFINITION,
    NAME,
    adopted_service,
    adopting_slice,
    ca_patch,
    conversion_patch,
    is_answered_by_others,
    is_own_slice,
    is_registered,
    leads_to,
    own_configuration,
)

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS = 0.2
_LONGEST_RETRY_SECONDS = 10.0
_END_SECONDS = 3.0  # for giving back at the end
# Changes of an object whose CA others replace, at most in that time (seconds): their controller may be starting.
_MOST_ADOPTIONS, _ADOPTION_WINDOW = 3, 60.0


class Registrar:
    """Registers the webhook at `address` and `port`, which answers with a certificate of `ca`, until cancelled.

    `stand_ins` returns the uids of pods that pass the calls of a published manifest's webhooks on to this process. Call
    `wake` when they change.
    """

    def __init__(
        self,
        client: ApiClient,
        address: str,
        port: int,
        ca: bytes,
        stand_ins: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._stand_ins = stand_ins
        self._client = client
        self._address, self._port, self._ca = address, port, ca
        self._configurations: Informer[ValidatingWebhookConfiguration] = Informer(client, WEBHOOK_CONFIGURATIONS)
        self._definitions: Informer[CustomResourceDefinition] = Informer(
            client, DEFINITIONS, field_selector=f"metadata.name={CONVERTED_DEFINITION}"
        )
        names = ",".join(service.name for service in ADOPTED_SERVICES)
        self._slices: Informer[EndpointSlice] = Informer(
            client, ENDPOINT_SLICES, label_selector=f"{SERVICE_NAME_LABEL} in ({names})"
        )
        self._wake = asyncio.Event()
        self._adoptions: dict[str, deque[float]] = {}  # when the CA was added, by object

    def wake(self) -> None:
        """Look at everything again."""
        self._wake.set()

    async def run(self) -> None:
        """Keep everything registered until cancelled, and give it back then."""
        informers: tuple[Informer[Any], ...] = (self._configurations, self._definitions, self._slices)
        for informer in informers:
            informer.on_change(lambda _old, _new: self._wake.set())
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in informers:
                    tasks.create_task(informer.run())
                tasks.create_task(self._keep(informers))
        finally:
            await self._end()

    async def _end(self) -> None:
        """Give back what this process has registered, unless another one has taken it over."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                await give_back(self._client, Registration(self._address, self._port, self._ca))
        except (ClientError, TimeoutError) as error:
            log.warning("cannot give the webhooks back, `bridgehead balancer --cleanup` does: %s", error or "no answer")

    async def _keep(self, informers: tuple[Informer[Any], ...]) -> None:
        for informer in informers:
            await informer.wait_synced()
        backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        self._wake.set()
        is_complete = True
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if is_complete else _LONGEST_RETRY_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                is_complete = await self._sync()
                backoff.reset()
            except ClientError as error:
                if backoff.failures == 0:
                    log.warning("cannot register the webhook, trying again until it works: %s", error)
                self._wake.set()
                await asyncio.sleep(backoff.next())

    async def _sync(self) -> bool:
        """Register all; return whether nothing is left for later: each Service that is to be adopted exists."""
        used = [service for service in ADOPTED_SERVICES if self._is_used(service)]
        await self._release_slices(used)
        await self._write_own()
        adopted = [service for service in used if await self._adopt(service)]
        is_complete = adopted == used
        for configuration in list(self._configurations.items()):
            patch = ca_patch(configuration, self._ca, adopted)
            if patch:
                is_complete &= await self._change_trust(WEBHOOK_CONFIGURATIONS, configuration, patch)
        for definition in list(self._definitions.items()):
            patch = conversion_patch(definition, self._ca, adopted)
            if patch:
                is_complete &= await self._change_trust(DEFINITIONS, definition, patch)
        return is_complete

    async def _change_trust(self, kind: Any, obj: Any, patch: list[dict[str, Any]]) -> bool:
        """Apply a patch of CAs; return False if it has to wait because others replace the CA again and again."""
        name = obj.metadata.name
        if any(operation["op"] == "add" for operation in patch):
            past, now = self._adoptions.setdefault(name, deque(maxlen=_MOST_ADOPTIONS)), time.monotonic()
            if len(past) == _MOST_ADOPTIONS and now - past[0] < _ADOPTION_WINDOW:
                return False
            past.append(now)
            log.info("answering the webhooks of %s, whose own controller does not run", name)
        else:
            log.info("no longer answering the webhooks of %s", name)
        with contextlib.suppress(NotFound, Conflict):  # changed a moment ago; the informer wakes this again
            await self._client.patch(kind, name, "", patch, "json")
        return True

    async def _write_own(self) -> None:
        """Create or update the own configuration, whose URL and CA are those of this process."""
        wanted = own_configuration(self._address, self._port, self._ca)
        existing = self._configurations.get(ObjectKey("", NAME))
        if existing is None:
            with contextlib.suppress(AlreadyExists):  # a moment ago; the informer wakes this again
                await self._client.create(WEBHOOK_CONFIGURATIONS, wanted)
        elif not is_registered(existing, wanted):
            await self._client.patch(WEBHOOK_CONFIGURATIONS, NAME, "", {"webhooks": wanted["webhooks"]})

    def _is_used(self, service: ObjectKey) -> bool:
        """Whether a webhook or the conversion leads to the Service, and no pod of its own answers."""
        configs = [webhook.client_config for item in self._configurations.items() for webhook in item.webhooks]
        for definition in self._definitions.items():
            webhook = definition.spec.conversion.webhook
            if webhook is not None and webhook.client_config is not None:
                configs.append(webhook.client_config)
        return service in map(adopted_service, configs) and not is_answered_by_others(
            list(self._slices.items()), service, self._stand_ins()
        )

    async def _release_slices(self, used: list[ObjectKey]) -> None:
        """Delete the slices of Services that are not adopted any more, also those of an earlier process."""
        for slice_ in list(self._slices.items()):
            if is_own_slice(slice_) and slice_.service_key not in used:
                with contextlib.suppress(NotFound):
                    await self._client.delete(ENDPOINT_SLICES, slice_.metadata.name, slice_.metadata.namespace)

    async def _adopt(self, service: ObjectKey) -> bool:
        """Make the Service lead here; return whether it exists."""
        try:
            path = SERVICES.path(service.namespace, service.name)
            slice_ = adopting_slice(await self._client.request("GET", path), self._address, self._port)
        except NotFound:
            return False
        existing = self._slices.get(ObjectKey(service.namespace, NAME))
        if existing is not None and existing.address_type != slice_["addressType"]:  # immutable
            await self._client.delete(ENDPOINT_SLICES, NAME, service.namespace)
            existing = None
        if existing is None:
            with contextlib.suppress(AlreadyExists):
                await self._client.create(ENDPOINT_SLICES, slice_)
        elif not leads_to(existing, self._address, self._port):
            patch = {key: slice_[key] for key in ("endpoints", "ports")}
            await self._client.patch(ENDPOINT_SLICES, NAME, service.namespace, patch)
        return True
