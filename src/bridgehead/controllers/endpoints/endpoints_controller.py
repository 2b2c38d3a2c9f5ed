"""The Endpoints controller: the pods behind each Service as one Endpoints object, for clients of that older API.

Started by `manager`; watches Services, Pods and Endpoints.
Source: Kubernetes "Endpoints", `pkg/controller/endpoint`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import AlreadyExists, ClientError, Conflict, NotFound, Unreachable
from bridgehead.client.workqueue import Done, Outcome, Retry
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.workloads.pod_control import is_namespace_terminating
from bridgehead.objects.addresses import ip_family
from bridgehead.objects.core import EndpointAddress, EndpointPort, Endpoints, EndpointSubset, Pod, Service
from bridgehead.objects.endpoint_slices import HEADLESS_LABEL, TRIGGER_TIME_ANNOTATION
from bridgehead.objects.kinds import ENDPOINTS, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey, ObjectMeta

from .endpoint_pods import (
    host_name,
    is_headless,
    may_receive,
    pod_ips,
    reference_to,
    resolve_port,
    wants_endpoints,
)
from .service_pods import ServicePods
from .subsets import repack_subsets, truncate_subsets
from .trigger_times import TriggerTimes
from .write_pace import Pace

MANAGER: Final = "endpoint-controller"
MANAGED_BY_LABEL: Final = "endpoints.kubernetes.io/managed-by"
OVER_CAPACITY_ANNOTATION: Final = "endpoints.kubernetes.io/over-capacity"
LEADER_ANNOTATION: Final = "control-plane.alpha.kubernetes.io/leader"
WORKERS: Final = 5


# --- What is wanted --------------------------------------------------------------------------------------


def wanted_subsets(service: Service, pods: Iterable[Pod]) -> tuple[EndpointSubset, ...]:
    """Return the Service's endpoints in canonical form, for its first address family only."""
    subsets = []
    tolerant = service.spec.publish_not_ready_addresses
    for pod in pods:
        if not may_receive(pod, include_terminating=tolerant):
            continue
        ip = _address(service, pod)
        if ip is None:
            continue
        ports = _ports(service, pod)
        if not ports and not (is_headless(service) and not service.spec.ports):
            continue
        address = EndpointAddress(
            ip=ip, hostname=host_name(pod, service), node_name=pod.spec.node_name or None, target_ref=reference_to(pod)
        )
        if tolerant or pod.is_ready:
            subsets.append(EndpointSubset(addresses=(address,), ports=ports))
        else:
            subsets.append(EndpointSubset(not_ready_addresses=(address,), ports=ports))
    return repack_subsets(subsets)


def _address(service: Service, pod: Pod) -> str | None:
    if service.spec.ip_families:
        family = service.spec.ip_families[0]
    elif not is_headless(service):
        family = ip_family(service.spec.cluster_ip)
    else:
        family = None
    return next((ip for ip in pod_ips(pod) if family in (None, ip_family(ip))), None)


def _ports(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    ports = []
    for port in service.spec.ports:
        number = resolve_port(pod, port)
        if number is not None:
            ports.append(
                EndpointPort(name=port.name, port=number, protocol=port.protocol, app_protocol=port.app_protocol)
            )
    return tuple(ports)


def wanted_endpoints(service: Service, pods: Iterable[Pod], current: Endpoints | None) -> Endpoints:
    """Return the object to write: `current` (None: a new one) with the Service's endpoints and labels.

    Annotations of other writers stay. The trigger time is dropped, since it belongs to an earlier write.
    """
    subsets, truncated = truncate_subsets(wanted_subsets(service, pods))
    labels = {**service.metadata.labels, MANAGED_BY_LABEL: MANAGER}
    labels.pop(HEADLESS_LABEL, None)
    if is_headless(service):
        labels[HEADLESS_LABEL] = ""
    if current is None:
        meta = ObjectMeta(namespace=service.metadata.namespace, name=service.metadata.name)
    else:
        meta = current.metadata
    annotations = _without(meta.annotations, TRIGGER_TIME_ANNOTATION, OVER_CAPACITY_ANNOTATION)
    if truncated:
        annotations[OVER_CAPACITY_ANNOTATION] = "truncated"
    return Endpoints(metadata=msgspec.structs.replace(meta, labels=labels, annotations=annotations), subsets=subsets)


def needs_write(current: Endpoints | None, wanted: Endpoints) -> bool:
    """Whether the objects differ in more than the trigger time."""
    if current is None:
        return True
    annotations = _without(current.metadata.annotations, TRIGGER_TIME_ANNOTATION)
    return (current.subsets, current.metadata.labels, annotations) != (
        wanted.subsets,
        wanted.metadata.labels,
        wanted.metadata.annotations,
    )


def is_left_over(endpoints: Endpoints) -> bool:
    """Whether an Endpoints object without a Service may be deleted: old leader elections are stored in such objects."""
    return LEADER_ANNOTATION not in endpoints.metadata.annotations


def _without(annotations: dict[str, str], *keys: str) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in keys}


def _with_trigger_time(endpoints: Endpoints, moment: str) -> Endpoints:
    if not moment:
        return endpoints
    annotations = {**endpoints.metadata.annotations, TRIGGER_TIME_ANNOTATION: moment}
    meta = msgspec.structs.replace(endpoints.metadata, annotations=annotations)
    return msgspec.structs.replace(endpoints, metadata=meta)


# --- How it gets there -----------------------------------------------------------------------------------


class EndpointsController:
    """Writes the Endpoints of each Service. `clock` returns seconds since an arbitrary start."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._pods = informers.get(PODS)
        self._services = informers.get(SERVICES)
        self._endpoints = informers.get(ENDPOINTS)
        self._latest = Latest(self._endpoints)
        self._trigger_times = TriggerTimes()
        self._queue: WorkQueue[ObjectKey] = WorkQueue("endpoints")
        self._pace = Pace(self._queue, clock)
        self._service_pods = informers.derived(ServicePods)
        self._service_pods.on_change(self._pace.add)
        self._endpoints.on_change(self._endpoints_changed)

    async def run(self) -> None:
        for informer in (self._services, self._pods, self._endpoints):
            await informer.wait_synced()
        # Endpoints of Services that were deleted while no controller was running.
        for endpoints in self._endpoints.items():
            if self._services.get(endpoints.key) is None and is_left_over(endpoints):
                self._queue.add(endpoints.key)
        await self._queue.run(self.reconcile, workers=WORKERS)

    def _endpoints_changed(self, old: Endpoints | None, new: Endpoints | None) -> None:
        """Queue a Service whose Endpoints were deleted. Other changes by users are left, as in Kubernetes."""
        if new is None and old is not None:
            self._queue.add(old.key)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Write one Service's Endpoints. Raises ClientError."""
        service = self._services.get(key)
        if service is None:
            await self._clean_up(key)
            return Done()
        if not wants_endpoints(service):
            return Done()
        pods = self._service_pods.of(key)
        trigger_time = self._trigger_times.advance(service, pods)
        current = self._latest.get(key)
        wanted = wanted_endpoints(service, pods, current)
        if needs_write(current, wanted):
            try:
                await self._write(_with_trigger_time(wanted, trigger_time), is_new=current is None)
            except (AlreadyExists, Conflict) as error:
                return Retry(str(error))  # the informer has not seen the newer object yet
            except ClientError as error:
                if current is None and is_namespace_terminating(error):
                    return Done()
                self._report(wanted, current is None, error)
                raise
            self._pace.record_write(key)
        return Done()

    async def _clean_up(self, key: ObjectKey) -> None:
        self._trigger_times.forget(key)
        self._pace.forget(key)
        if self._endpoints.get(key) is not None:
            with contextlib.suppress(NotFound):
                await self._client.delete(ENDPOINTS, key.name, key.namespace)

    async def _write(self, endpoints: Endpoints, is_new: bool) -> None:
        if is_new:
            written = await self._client.create(ENDPOINTS, endpoints)
        else:
            written = await self._client.update(ENDPOINTS, endpoints)
        self._latest.remember(written)

    def _report(self, endpoints: Endpoints, is_new: bool, error: ClientError) -> None:
        if isinstance(error, Unreachable):
            return  # not the fault of the Service
        if is_new:
            reason, message = "FailedToCreateEndpoint", "Failed to create endpoint for service"
        else:
            reason, message = "FailedToUpdateEndpoint", "Failed to update endpoint"
        self._recorder.record(endpoints, type="Warning", reason=reason, message=f"{message} {endpoints.key}: {error}")
