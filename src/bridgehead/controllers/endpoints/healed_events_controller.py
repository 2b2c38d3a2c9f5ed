"""Deletes the Warning Events of load balancers and service proxies whose cause is gone.

Started by `manager`; watches Services and the Leases of proxies. The writers of these Events may create but not delete
Events. Others expire within an hour; a user who looks at a Service or a Node sees only what is still wrong.
"""

from __future__ import annotations

import contextlib
from typing import Final, NamedTuple

from bridgehead.client import ApiClient, EventRecorder, Informer, WorkQueue
from bridgehead.client.errors import NotFound
from bridgehead.client.workqueue import Done, Outcome
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects import progress
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Service
from bridgehead.objects.kinds import EVENTS, LEASES, SERVICES
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import lease_name, read_progress

from .service_troubles import waits_for_load_balancer

_NO_ADDRESS: Final = "AllocationFailed"  # of the balancer, and of MetalLB
_OTHER_MODE: Final = "ProxyModeUnavailable"  # of the proxy, about its Node
_NODE_EVENTS: Final = "default"  # namespace of Events about objects without one


class _About(NamedTuple):
    """The Events of one reason about one object. `namespace`: that of the Events."""

    namespace: str
    name: str
    reason: str


class HealedEventsController:
    """Deletes Events when a Service gets its address, and when a proxy runs in the mode that it should have."""

    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._queue: WorkQueue[_About] = WorkQueue("healedevents")
        self._services = informers.get(SERVICES)
        self._leases = informers.add(Informer(client, LEASES, progress.NAMESPACE, progress.SELECTOR))
        self._services.on_change(self._service_changed)
        self._leases.on_change(self._lease_changed)

    async def run(self) -> None:
        for informer in (self._services, self._leases):
            await informer.wait_synced()
        for reason in (_NO_ADDRESS, _OTHER_MODE):  # of causes that went while no controller ran
            for event in (await self._client.list(EVENTS, field_selector=f"reason={reason}")).items:
                self._queue.add(_About(event.metadata.namespace, event.involved_object.name, reason))
        await self._queue.run(self.reconcile, workers=1)

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        if old is not None and new is not None and waits_for_load_balancer(old) and not waits_for_load_balancer(new):
            self._queue.add(_About(*new.key, _NO_ADDRESS))

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        before = read_progress(old) if old is not None else None
        after = read_progress(new) if new is not None else None
        if before is not None and after is not None and before.mode.problem and not after.mode.problem:
            self._queue.add(_About(_NODE_EVENTS, after.node, _OTHER_MODE))

    async def reconcile(self, about: _About) -> Outcome:
        """Delete the Events if their cause is gone. Raises ClientError."""
        if self._is_wrong(about):
            return Done()
        selector = f"involvedObject.name={about.name},reason={about.reason},type=Warning"
        for event in (await self._client.list(EVENTS, about.namespace, field_selector=selector)).items:
            with contextlib.suppress(NotFound):
                await self._client.delete(EVENTS, event.metadata.name, about.namespace)
        return Done()

    def _is_wrong(self, about: _About) -> bool:
        """Return whether the cause lasts, or is not known to be gone."""
        if about.reason == _NO_ADDRESS:
            service = self._services.get(ObjectKey(about.namespace, about.name))
            return service is not None and waits_for_load_balancer(service)
        lease = self._leases.get(ObjectKey(progress.NAMESPACE, lease_name(about.name)))
        published = read_progress(lease) if lease is not None else None
        return published is None or bool(published.mode.problem)
