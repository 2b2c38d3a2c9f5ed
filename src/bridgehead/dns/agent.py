"""Follows Services, EndpointSlices, Namespaces and, if asked for, Pods, and keeps the zone equal to what they say.

Informers mark Services as dirty; one consumer recompiles those, and only those. `engine.py` runs it. While the API
server is away the zone stays as it is, and answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from bridgehead.client import ApiClient, Informer
from bridgehead.objects.core import Namespace, Pod, Service
from bridgehead.objects.discovery import EndpointSlice, index_by_service
from bridgehead.objects.kinds import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

from .metrics import DnsMetrics
from .records import RecordSets, ServiceRecords, more_records, pod_records, service_records
from .zone import Zone

log = logging.getLogger(__name__)

_SERVICES_AT_ONCE = 50  # compiled before queries get their turn


class DnsAgent:
    """One zone's feeder. `name_server` is the Service under which clients reach us. `run` works until cancelled.

    `follow_pods` keeps all pods at hand even if their names are not verified, for `namespace_of`.
    """

    def __init__(
        self,
        client: ApiClient,
        zone: Zone,
        metrics: DnsMetrics,
        *,
        name_server: ObjectKey = ObjectKey("kube-system", "kube-dns"),  # noqa: B008 - a constant
        follow_pods: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.zone = zone
        zone.find_more = self._find_more
        self._metrics = metrics
        self._name_server = name_server
        self._now = now
        self._services: Informer[Service] = Informer(client, SERVICES)
        self._slices: Informer[EndpointSlice] = Informer(
            client,
            ENDPOINT_SLICES,
            indexes={"service": index_by_service},
        )
        self._namespaces: Informer[Namespace] = Informer(client, NAMESPACES)
        self._pods: Informer[Pod] | None = None
        if follow_pods or zone.settings.pods == "verified":
            self._pods = Informer(client, PODS, indexes={"address": _own_addresses})
        self._dirty: set[ObjectKey] = set()
        self._triggers: list[float] = []
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._told: dict[ObjectKey, tuple[str, ...]] = {}

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        self._services.on_change(self._service_changed)
        self._slices.on_change(self._slice_changed)
        self._namespaces.on_change(self._namespace_changed)
        if self._pods is not None and self.zone.settings.pods == "verified":
            self._pods.on_change(self._pod_changed)
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers():
                tasks.create_task(informer.run())
            tasks.create_task(self._consume())

    async def wait_synced(self) -> None:
        """Wait until everything that was there at the start is in the zone."""
        await self._synced.wait()

    def namespace_of(self, address: str) -> str | None:
        """Of the pod that has this address for itself."""
        pods = self._pods.by_index("address", address) if self._pods is not None else []
        return next((pod.metadata.namespace for pod in pods if not pod.is_finished), None)

    def _informers(self) -> Iterable[Informer[Service] | Informer[EndpointSlice] | Informer[Namespace] | Informer[Pod]]:
        yield from (self._services, self._slices, self._namespaces)
        if self._pods is not None:
            yield self._pods

    # --- Changes, from the informers -------------------------------------------------------------------------

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        either = new if new is not None else old
        if either is None:
            return
        if old is not None and new is not None and old.spec == new.spec:
            return  # only metadata or status
        if self._tells_of(either.metadata.namespace):
            self._mark(either.key)
        if either.key == self._name_server:
            ips = () if new is None else new.spec.cluster_ips or (new.spec.cluster_ip,)
            self.zone.set_name_server(tuple(ips))

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for slice_ in (old, new):
            if slice_ is not None and slice_.service_name and self._tells_of(slice_.metadata.namespace):
                key = ObjectKey(slice_.metadata.namespace, slice_.service_name)
                service = self._services.get(key)
                if service is None or service.spec.cluster_ip == "None":
                    self._mark(key)
                    self._note_trigger(new)
                else:  # others' endpoints are nowhere in the specification
                    self.zone.forget_more(key)

    def _note_trigger(self, slice_: EndpointSlice | None) -> None:
        trigger = slice_.triggered_at if slice_ is not None else None
        if trigger is not None and self._synced.is_set():  # what happened before our start says nothing about us
            self._triggers.append(trigger)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        either = new if new is not None else old
        if either is not None and self._tells_of(either.metadata.name):
            self.zone.set_namespace(either.metadata.name, new is not None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        either = new if new is not None else old
        if either is not None and self._tells_of(either.metadata.namespace):
            self.zone.set_pod(either.key, pod_records(new, self.zone.settings.domain) if new is not None else {})

    def _tells_of(self, namespace: str) -> bool:
        namespaces = self.zone.settings.namespaces
        return not namespaces or namespace in namespaces

    def _mark(self, key: ObjectKey) -> None:
        self._dirty.add(key)
        self._wake.set()

    # --- The one consumer ------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        for informer in self._informers():
            await informer.wait_synced()
        while True:
            dirty, self._dirty = self._dirty, set()
            triggers, self._triggers = self._triggers, []
            self._wake.clear()
            await self._compile(dirty)
            for trigger in triggers:
                self._metrics.programming_seconds.observe(max(0.0, self._now() - trigger))
            if not self._synced.is_set():
                log.info("%d Services make %d answers", len(self._services), len(self.zone))
                self._synced.set()
            await self._wake.wait()

    async def _compile(self, keys: Iterable[ObjectKey]) -> None:
        changed = False
        for count, key in enumerate(sorted(keys)):
            if count % _SERVICES_AT_ONCE == _SERVICES_AT_ONCE - 1:
                await asyncio.sleep(0)
            changed |= await self._compile_one(key)
        if changed:
            self.zone.set_serial(int(self._now()))

    async def _compile_one(self, key: ObjectKey) -> bool:
        service = self._services.get(key)
        if service is None:
            self._told.pop(key, None)
            return self.zone.set_service(key, None)
        try:
            slices = self._slices.by_index("service", f"{key.namespace}/{key.name}")
            records = service_records(
                service, slices, self.zone.settings.domain, by_pod=self.zone.settings.endpoint_pod_names
            )
            changed = await self._change(key, records)
        except Exception:
            log.exception("Service %s: cannot be compiled and keeps what it had; this is a bug", key)
            return False
        if records.problems and self._told.get(key) != records.problems:
            log.warning("Service %s: %s", key, "; ".join(records.problems))
        self._told[key] = records.problems
        return changed

    def _find_more(self, key: ObjectKey) -> Mapping[str, RecordSets]:
        service = self._services.get(key)
        if service is None:
            return {}
        settings = self.zone.settings
        slices = self._slices.by_index("service", f"{key.namespace}/{key.name}")
        return more_records(service, slices, settings.domain, by_pod=settings.endpoint_pod_names)

    async def _change(self, key: ObjectKey, records: ServiceRecords) -> bool:
        """Queries get their turn while a Service with thousands of endpoints changes."""
        steps = self.zone.change_service(key, records)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)
            await asyncio.sleep(0)


def _own_addresses(pod: Pod) -> Iterable[str]:
    """Not those of the node: several pods have them, and none has the cluster's search list by right."""
    return () if pod.spec.host_network else (entry.ip for entry in pod.status.pod_ips if entry.ip)
