"""The EndpointSlice mirroring controller: copies Endpoints that users wrote into slices, which proxies read.

Started by `manager`; watches Endpoints, Services and EndpointSlices. Only Endpoints of a Service without a selector are
mirrored. Source: Kubernetes "EndpointSlices: mirroring", `pkg/controller/endpointslicemirroring`.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Final

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import ClientError
from bridgehead.client.workqueue import Done, Outcome
from bridgehead.controllers.adoption import controller_reference
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.workloads.pod_control import is_namespace_terminating
from bridgehead.objects.addresses import ip_family
from bridgehead.objects.core import EndpointAddress, EndpointPort, Endpoints, Service
from bridgehead.objects.endpoint_slices import (
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    TRIGGER_TIME_ANNOTATION,
    Endpoint,
    EndpointConditions,
    EndpointSlice,
    SlicePort,
)
from bridgehead.objects.kinds import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from bridgehead.objects.meta import ObjectKey

from .endpoints_controller import LEADER_ANNOTATION
from .slice_cache import SliceCache
from .slice_plan import Group, SlicePlan, Template, plan_slices, sort_ports
from .slice_writer import SliceWriter
from .subsets import repack_subsets

MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
SKIP_LABEL: Final = "endpointslice.kubernetes.io/skip-mirror"
MAX_ADDRESSES_PER_SUBSET: Final = 1000
WORKERS: Final = 5

_NOT_COPIED = frozenset({TRIGGER_TIME_ANNOTATION, "kubectl.kubernetes.io/last-applied-configuration"})
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})  # strconv.ParseBool


# --- What is wanted --------------------------------------------------------------------------------------


def is_mirrored(endpoints: Endpoints, service: Service | None) -> bool:
    """Whether this controller writes slices for these Endpoints."""
    meta = endpoints.metadata
    if meta.labels.get(SKIP_LABEL) in _TRUE or LEADER_ANNOTATION in meta.annotations:
        return False
    return service is not None and not service.spec.selector


@dataclass
class Mirror:
    """The wanted content of the slices, and the number of addresses that cannot be mirrored."""

    wanted: dict[Group, list[Endpoint]] = field(default_factory=dict)
    invalid: int = 0
    surplus: int = 0


def mirror_subsets(endpoints: Endpoints, maximum: int = MAX_ADDRESSES_PER_SUBSET) -> Mirror:
    """Return endpoints by address family and ports: of each subset `maximum` valid addresses, ready ones first."""
    mirror = Mirror()
    for subset in repack_subsets(endpoints.subsets):
        ports = sort_ports([_slice_port(port) for port in subset.ports])
        candidates = [(address, True) for address in subset.addresses]
        candidates += [(address, False) for address in subset.not_ready_addresses]
        added = 0
        for address, ready in candidates:
            if added == maximum:
                mirror.surplus += 1
            elif not _is_ip(address.ip):
                mirror.invalid += 1
            else:
                added += 1
                mirror.wanted.setdefault(Group(ip_family(address.ip), ports), []).append(_endpoint(address, ready))
    return mirror


def _slice_port(port: EndpointPort) -> SlicePort:
    return SlicePort(name=port.name, protocol=port.protocol, port=port.port, app_protocol=port.app_protocol)


def _endpoint(address: EndpointAddress, ready: bool) -> Endpoint:
    return Endpoint(
        addresses=(address.ip,),
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        target_ref=address.target_ref,
        node_name=address.node_name,
    )


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def mirror_template(endpoints: Endpoints) -> Template:
    meta = endpoints.metadata
    return Template(
        namespace=meta.namespace,
        owner=controller_reference(ENDPOINTS, endpoints),
        labels={**meta.labels, SERVICE_NAME_LABEL: meta.name, MANAGED_BY_LABEL: MANAGER},
        annotations={key: value for key, value in meta.annotations.items() if key not in _NOT_COPIED},
    )


# --- How it gets there -----------------------------------------------------------------------------------


class EndpointSliceMirroringController:
    """Writes the slices of each mirrored Endpoints object."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        max_addresses_per_subset: int = MAX_ADDRESSES_PER_SUBSET,
    ) -> None:
        self._recorder = recorder
        self._maximum = max_addresses_per_subset
        self._endpoints = informers.get(ENDPOINTS)
        self._services = informers.get(SERVICES)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("endpointslicemirroring")
        self._slices = informers.get(ENDPOINT_SLICES)
        self._cache = SliceCache(self._slices, MANAGER)
        self._writer = SliceWriter(client, self._cache)
        self._endpoints.on_change(self._endpoints_changed)
        self._services.on_change(self._service_changed)
        self._slices.on_change(self._slice_changed)

    async def run(self) -> None:
        for informer in (self._endpoints, self._services, self._slices):
            await informer.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    def _endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        endpoints = new or old
        if endpoints is not None:
            self._queue.add(endpoints.key)

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        if service is None:
            return
        if old is None or new is None or bool(old.spec.selector) != bool(new.spec.selector):
            self._queue.add(service.key)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for service in self._cache.foreign_changes(old, new):
            self._queue.add(service)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Write the mirrored slices of one Endpoints object. Raises ClientError."""
        endpoints = self._endpoints.get(key)
        existing = self._cache.of(key)
        if endpoints is None or not is_mirrored(endpoints, self._services.get(key)):
            await self._writer.apply(SlicePlan(delete=tuple(existing)))
            return Done()
        mirror = mirror_subsets(endpoints, self._maximum)
        self._report(endpoints, mirror)
        try:
            await self._writer.apply(plan_slices(mirror_template(endpoints), mirror.wanted, existing, self._maximum))
        except ClientError as error:
            if is_namespace_terminating(error):
                return Done()
            raise
        return Done()

    def _report(self, endpoints: Endpoints, mirror: Mirror) -> None:
        if mirror.invalid:
            self._recorder.record(
                endpoints,
                type="Warning",
                reason="InvalidIPAddress",
                message=f"Skipped {mirror.invalid} invalid IP addresses when mirroring to EndpointSlices",
            )
        if mirror.surplus:
            self._recorder.record(
                endpoints,
                type="Warning",
                reason="TooManyAddressesToMirror",
                message=f"A max of {self._maximum} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{mirror.surplus} addresses were skipped",
            )
