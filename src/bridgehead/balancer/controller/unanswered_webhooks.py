"""Report of webhooks of published manifests that nobody answers: they let nothing be changed."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from bridgehead.balancer.admission.registration import ADOPTED_SERVICES, unanswered
from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.objects.endpoint_slices import SERVICE_NAME_LABEL, EndpointSlice
from bridgehead.objects.extensions import WEBHOOK_CONFIGURATIONS, ValidatingWebhookConfiguration
from bridgehead.objects.kinds import ENDPOINT_SLICES
from bridgehead.objects.meta import ObjectKey, ObjectReference

from .other_balancer_watch import OtherBalancerWatch

log = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 10.0  # in which a controller of the manifest's own becomes ready


class UnansweredWatch:
    """Writes a line into the log and an Event for each configuration whose webhooks have had no ready endpoint for a
    while. `has_webhook`: this controller has one, which answers those that it may adopt."""

    def __init__(
        self, client: ApiClient, recorder: EventRecorder, presence: OtherBalancerWatch, *, has_webhook: bool
    ) -> None:
        self._recorder = recorder
        self._presence = presence
        self._advice = (
            ""
            if has_webhook
            else "start `bridgehead balancer` with --webhook, which answers them while nobody else does; or "
        )
        self._configurations: Informer[ValidatingWebhookConfiguration] = Informer(client, WEBHOOK_CONFIGURATIONS)
        names = ",".join(sorted({service.name for service in ADOPTED_SERVICES}))
        self._slices: Informer[EndpointSlice] = Informer(
            client, ENDPOINT_SLICES, label_selector=f"{SERVICE_NAME_LABEL} in ({names})"
        )
        self.reported: dict[str, ObjectKey] = {}  # those of now
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Report until cancelled."""
        informers: tuple[Informer[Any], ...] = (self._configurations, self._slices)
        for informer in informers:
            informer.on_change(lambda _old, _new: self._wake.set())
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:
                await informer.wait_synced()
            await self._report()

    def _blocking(self) -> dict[str, ObjectKey]:
        return unanswered(self._configurations.items(), self._slices.items(), self._presence.stand_ins)

    async def _report(self) -> None:
        while True:
            before = self._blocking()
            if before:
                await asyncio.sleep(_PATIENCE_SECONDS)
            lasting = {name: service for name, service in self._blocking().items() if before.get(name) == service}
            for name, service in lasting.items():
                if self.reported.get(name) != service:
                    self._report_one(name, service)
            self.reported = lasting
            if before == self._blocking():
                await self._wake.wait()
            self._wake.clear()

    def _report_one(self, name: str, service: ObjectKey) -> None:
        message = (
            f"no pool, peer or advertisement can be changed: the webhooks of {name} must answer, and their Service"
            f" {service} has no ready endpoint; {self._advice}delete them with"
            f" `kubectl delete validatingwebhookconfiguration {name}`"
        )
        log.warning("%s", message)
        found = self._configurations.get(ObjectKey("", name))
        kind = WEBHOOK_CONFIGURATIONS
        uid = "" if found is None else found.metadata.uid
        about = ObjectReference(api_version=kind.api_version, kind=kind.name, name=name, uid=uid)
        self._recorder.record(about, type="Warning", reason="WebhooksUnanswered", message=message)
