"""Keeps the zone equal to Services, EndpointSlices, Namespaces and, if configured, Pods.

Informers mark changed Services; one consumer compiles their answers again. `instance.py` runs it. While the API server
cannot be reached, the zone stays as it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from bridgehead.client import ApiClient, Informer
from bridgehead.objects.core import Namespace, Pod, Service
from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice, index_by_service
from bridgehead.objects.kinds import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

from .messages.record_sets import RecordSets
from .serving import DnsMetrics
from .zone import (
    ServiceRecords,
    Zone,
    endpoint_names,
    endpoints_by_address,
    extra_records,
    index_by_address,
    pod_records,
    service_records,
)

log = logging.getLogger(__name__)

_SERVICES_PER_STEP = 50  # compiled before queries are answered again


class ZoneSync:
    """Keeps one zone up to date. `name_server` is the Service by which clients reach this server.

    If that does not exist, these are the Services with an endpoint at one of `own_addresses`, or these addresses.

    `follow_pods`: all pods are watched for `namespace_of`, even if `pods` is not "verified".
    """

    def __init__(
        self,
        client: ApiClient,
        zone: Zone,
        metrics: DnsMetrics,
        *,
        name_server: ObjectKey = ObjectKey("kube-system", "kube-dns"),  # noqa: B008 - a constant
        own_addresses: tuple[str, ...] = (),
        follow_pods: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.zone = zone
        zone.find_extra = self._find_extra
        zone.find_reverse = self._find_reverse
        self._metrics = metrics
        self._name_server = name_server
        self._own_addresses = own_addresses
        self._now = now
        self._services: Informer[Service] = Informer(client, SERVICES)
        self._slices: Informer[EndpointSlice] = Informer(
            client,
            ENDPOINT_SLICES,
            indexes={"service": index_by_service, "address": index_by_address},
        )
        self._namespaces: Informer[Namespace] = Informer(client, NAMESPACES)
        self._pods: Informer[Pod] | None = None
        if follow_pods or zone.settings.pods == "verified":
            self._pods = Informer(client, PODS, indexes={"address": _own_addresses})
        self._by_address: dict[ObjectKey, Mapping[str, list[Endpoint]]] = {}  # of slices that names were asked of
        self._dirty: set[ObjectKey] = set()
        self._triggers: list[float] = []
        self._name_server_exists = False
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._logged_problems: dict[ObjectKey, tuple[str, ...]] = {}

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
        """Wait until all objects of the first lists are in the zone."""
        await self._synced.wait()

    def namespace_of(self, address: str) -> str | None:
        """Return the namespace of the pod with this address; None for addresses of nodes and unknown ones."""
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
        if self._has_names(either.metadata.namespace):
            self._mark(either.key)
        if either.key == self._name_server:
            self._wake.set()

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        either = new if new is not None else old
        if either is not None:
            self._by_address.pop(either.key, None)
        for slice_ in (old, new):
            key = slice_.service_key if slice_ is not None else None
            if slice_ is not None and not self._name_server_exists and self._own_addresses:
                self._wake.set()
            if slice_ is not None and key is not None and self._has_names(key.namespace):
                service = self._services.get(key)
                if service is None or service.spec.cluster_ip == "None":
                    self._mark(key)
                    self._record_trigger(new)
                else:  # endpoints of a cluster IP are not in the table
                    self.zone.forget_extra(key)
                    self.zone.forget_reverse(index_by_address(slice_))

    def _record_trigger(self, slice_: EndpointSlice | None) -> None:
        trigger = slice_.triggered_at if slice_ is not None else None
        if trigger is not None and self._synced.is_set():  # earlier changes do not measure this process
            self._triggers.append(trigger)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        either = new if new is not None else old
        if either is not None and self._has_names(either.metadata.name):
            self.zone.set_namespace(either.metadata.name, new is not None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        either = new if new is not None else old
        if either is not None and self._has_names(either.metadata.namespace):
            self.zone.set_pod(either.key, pod_records(new, self.zone.settings.domain) if new is not None else {})

    def _has_names(self, namespace: str) -> bool:
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
            self._find_name_server()
            for trigger in triggers:
                self._metrics.programming_seconds.observe(max(0.0, self._now() - trigger))
            if not self._synced.is_set():
                log.info("%d Services make %d answers", len(self._services), len(self.zone))
                self._synced.set()
            await self._wake.wait()

    async def _compile(self, keys: Iterable[ObjectKey]) -> None:
        changed = False
        for count, key in enumerate(sorted(keys)):
            if count % _SERVICES_PER_STEP == _SERVICES_PER_STEP - 1:
                await asyncio.sleep(0)
            changed |= await self._compile_one(key)
        if changed:
            self.zone.set_serial(int(self._now()))

    async def _compile_one(self, key: ObjectKey) -> bool:
        service = self._services.get(key)
        slices = self._slices.by_index("service", f"{key.namespace}/{key.name}")
        if service is None:
            self._logged_problems.pop(key, None)
            changed = self.zone.set_service(key, None)
            self.zone.forget_reverse(address for slice_ in slices for address in index_by_address(slice_))
            return changed
        try:
            records = service_records(
                service, slices, self.zone.settings.domain, by_pod=self.zone.settings.endpoint_pod_names
            )
            changed = await self._apply(key, records)
        except Exception:
            log.exception("Service %s: cannot be compiled and keeps its records; this is a bug", key)
            return False
        if records.problems and self._logged_problems.get(key) != records.problems:
            log.warning("Service %s: %s", key, "; ".join(records.problems))
        self._logged_problems[key] = records.problems
        return changed

    def _find_name_server(self) -> None:
        """Set the addresses of the zone's NS record."""
        known = self._services.get(self._name_server)
        self._name_server_exists = known is not None
        services = {known.key: known} if known is not None else {}
        for address in () if known is not None else self._own_addresses:
            for slice_ in self._slices.by_index("address", address):
                service = self._services.get(slice_.service_key) if slice_.service_key is not None else None
                if service is not None:
                    services[service.key] = service
        specs = [services[key].spec for key in sorted(services)]
        ips = dict.fromkeys(ip for spec in specs for ip in spec.cluster_ips or (spec.cluster_ip,))
        found = tuple(ip for ip in ips if ip and ip != "None")
        self.zone.set_name_server(found or (() if known is not None else self._own_addresses))

    def _find_extra(self, key: ObjectKey) -> Mapping[str, RecordSets]:
        service = self._services.get(key)
        if service is None:
            return {}
        settings = self.zone.settings
        slices = self._slices.by_index("service", f"{key.namespace}/{key.name}")
        return extra_records(service, slices, settings.domain, by_pod=settings.endpoint_pod_names)

    def _find_reverse(self, address: str) -> list[str]:
        slices = [
            slice_
            for slice_ in self._slices.by_index("address", address)
            if (key := slice_.service_key) is not None
            and self._has_names(key.namespace)
            and self._services.get(key) is not None
        ]
        settings = self.zone.settings
        return endpoint_names(
            slices,
            address,
            settings.domain,
            by_pod=settings.endpoint_pod_names,
            endpoints_of=self._endpoints_by_address,
        )

    def _endpoints_by_address(self, slice_: EndpointSlice) -> Mapping[str, list[Endpoint]]:
        if slice_.key not in self._by_address:
            self._by_address[slice_.key] = endpoints_by_address(slice_)
        return self._by_address[slice_.key]

    async def _apply(self, key: ObjectKey, records: ServiceRecords) -> bool:
        """Change a Service in short steps, between which queries are answered. Returns whether any answer changed."""
        steps = self.zone.change_service(key, records)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)
            await asyncio.sleep(0)


def _own_addresses(pod: Pod) -> Iterable[str]:
    """Index by the addresses that belong to one pod: not those of the node, which host-network pods share."""
    return () if pod.spec.host_network else (entry.ip for entry in pod.status.pod_ips if entry.ip)
