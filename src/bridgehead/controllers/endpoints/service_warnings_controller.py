"""Warning Events of Services that cannot work: one for each cause, deleted when the cause is gone.

Started by `manager`; watches Services, Pods and EndpointSlices. `service_troubles` has the causes. A cause is reported
when it has lasted for ten seconds, since a Service and its pods are often created one after the other. The Event is
repeated before the API server would drop it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import AlreadyExists, ClientError, NotFound
from bridgehead.client.event_recorder import reference_to
from bridgehead.client.workqueue import Done, Outcome, Requeue
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.workloads.pod_control import is_namespace_terminating
from bridgehead.objects.core import Event, EventSource, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, EVENTS, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from bridgehead.objects.times import format_time

from .service_pods import ServicePods
from .service_troubles import COMPONENT, Trouble, event_name, find_troubles

DELAY: Final = 10.0  # seconds that a trouble lasts before its Event
SETTLING: Final = 1.0  # seconds; changes within them are looked at once
REPEAT: Final = 1800.0  # seconds; half of the API server's --event-ttl
WORKERS: Final = 1  # a cluster full of troubles must not flood the API server

_FILLED = "service of a slice with endpoints"  # name of an index


@dataclass(frozen=True)
class _Written:
    """An Event as this controller, or an earlier process of it, wrote it. `at`: time of the loop's clock."""

    message: str
    count: int
    at: float


class ServiceWarningsController:
    """Writes the Events of Services in trouble. `delay` is in seconds; `now` returns seconds since the epoch."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        delay: float = DELAY,
        now: Callable[[], float] = time.time,
    ) -> None:
        # The recorder is not used: it cannot delete, and forgets its Events when the process restarts.
        self._client = client
        self._delay = delay
        self._now = now
        self._queue: WorkQueue[ObjectKey] = WorkQueue("servicewarnings")
        self._is_running = False
        self._since: dict[ObjectKey, dict[str, float]] = {}  # reason -> loop's time at which it was seen first
        self._events: dict[ObjectKey, dict[str, _Written]] = {}  # by name of the Event
        self._services = informers.get(SERVICES)
        self._pods = informers.get(PODS)
        self._slices = informers.get(ENDPOINT_SLICES)
        self._slices.add_index(_FILLED, _service_of_filled)
        self._service_pods = informers.derived(ServicePods)
        self._service_pods.on_selection(self._enqueue)
        self._services.on_change(self._service_changed)
        self._slices.on_change(self._slice_changed)

    async def run(self) -> None:
        for informer in (self._services, self._pods, self._slices):
            await informer.wait_synced()
        await self._restore()
        self._is_running = True
        try:
            for service in self._services.items():
                if self._find(service):
                    self._queue.add(service.key)
            for key in self._events:
                self._queue.add(key)
            await self._queue.run(self.reconcile, workers=WORKERS)
        finally:
            self._is_running = False

    async def _restore(self) -> None:
        """Read the Events of an earlier process, so that they are neither repeated nor left behind."""
        self._events.clear()
        now = asyncio.get_running_loop().time()
        for event in (await self._client.list(EVENTS, field_selector=f"source={COMPONENT}")).items:
            about, meta = event.involved_object, event.metadata
            written = _Written(event.message, event.count, now)
            self._events.setdefault(ObjectKey(about.namespace, about.name), {})[meta.name] = written

    # --- Changes -------------------------------------------------------------------------------------------

    def _enqueue(self, key: ObjectKey) -> None:
        if self._is_running:
            self._queue.add_after(key, SETTLING)

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        if service is not None and (old is None or new is None or _relevant_fields(old) != _relevant_fields(new)):
            self._enqueue(service.key)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        """Ignore the changes of endpoints, which are many, but for the first and the last of a slice."""
        if _port_names(old) == _port_names(new):
            return
        for slice_ in (old, new):
            key = slice_.service_key if slice_ is not None else None
            if key is not None:
                self._enqueue(key)

    # --- Events --------------------------------------------------------------------------------------------

    def _find(self, service: Service) -> tuple[Trouble, ...]:
        key = service.key
        return find_troubles(service, self._service_pods.unfinished(key), self._slices.by_index(_FILLED, str(key)))

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Write and delete the Events of one Service. Raises ClientError."""
        service = self._services.get(key)
        troubles = self._find(service) if service is not None else ()
        since = self._update_since(key, service, troubles)
        now = asyncio.get_running_loop().time()
        wanted: dict[str, Trouble] = {}
        waits: list[float] = []
        for trouble in troubles:
            left = since[trouble.reason] + self._delay - now
            if service is not None and left <= 0:
                wanted[event_name(service, trouble.reason)] = trouble
            else:
                waits.append(left)
        for name in [name for name in self._events.get(key, {}) if name not in wanted]:
            await self._delete(key, name)
        for name, trouble in wanted.items():
            if service is not None and not await self._write(service, name, trouble):
                return Done()  # the namespace is being deleted
            waits.append(max(1.0, self._events[key][name].at + REPEAT - now))
        return Requeue(min(waits)) if waits else Done()

    def _update_since(
        self, key: ObjectKey, service: Service | None, troubles: Sequence[Trouble]
    ) -> Mapping[str, float]:
        """Return since when each trouble has lasted, as times of the loop's clock.

        A trouble that has its Event has lasted long enough, also after a restart.
        """
        before, events = self._since.pop(key, {}), self._events.get(key, {})
        if service is None or not troubles:
            return {}
        now = asyncio.get_running_loop().time()
        since = {}
        for trouble in troubles:
            has_event = event_name(service, trouble.reason) in events
            since[trouble.reason] = before.get(trouble.reason, now - self._delay if has_event else now)
        self._since[key] = since
        return since

    async def _write(self, service: Service, name: str, trouble: Trouble) -> bool:
        """Create or repeat an Event. Returns False where nothing can be created any more."""
        key, at = service.key, asyncio.get_running_loop().time()
        before = self._events.get(key, {}).get(name)
        if before is not None and before.message == trouble.message and at - before.at < REPEAT:
            return True
        count = 1 if before is None else before.count + 1
        moment = format_time(self._now())
        if before is not None:
            patch = {"count": count, "lastTimestamp": moment, "message": trouble.message}
            try:
                await self._client.patch(EVENTS, name, key.namespace, patch)
            except NotFound:
                before = None
        if before is None:
            event = Event(
                metadata=ObjectMeta(name=name, namespace=key.namespace),
                involved_object=reference_to(service),
                reason=trouble.reason,
                message=trouble.message,
                type="Warning",
                source=EventSource(component=COMPONENT),
                first_timestamp=moment,
                last_timestamp=moment,
                count=count,
                reporting_component=COMPONENT,
            )
            try:
                await self._client.create(EVENTS, event)
            except AlreadyExists:
                pass  # by a process that did not live to see the answer
            except ClientError as error:
                if is_namespace_terminating(error):
                    return False
                raise
        self._events.setdefault(key, {})[name] = _Written(trouble.message, count, at)
        return True

    async def _delete(self, key: ObjectKey, name: str) -> None:
        with contextlib.suppress(NotFound):  # deleted with its namespace, or expired
            await self._client.delete(EVENTS, name, key.namespace)
        events = self._events[key]
        del events[name]
        if not events:
            del self._events[key]


def _relevant_fields(service: Service) -> object:
    meta, status = service.metadata, service.status
    waits = bool(status.load_balancer.ingress), bool(status.conditions)
    return service.spec, waits, meta.uid, meta.deletion_timestamp


def _port_names(slice_: EndpointSlice | None) -> frozenset[str] | None:
    """Return the names of the slice's ports; None without endpoints."""
    if slice_ is None or not slice_.endpoints:
        return None
    return frozenset(port.name or "" for port in slice_.ports or ())


def _service_of_filled(slice_: EndpointSlice) -> tuple[str, ...]:
    """Index function: the Service of a slice that has endpoints."""
    key = slice_.service_key
    return (str(key),) if key is not None and slice_.endpoints else ()
