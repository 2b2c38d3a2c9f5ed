"""The EndpointSlice controller: the pods behind each Service, in slices of at most 100 endpoints by default.

Started by `manager`; watches Services, Pods, Nodes and EndpointSlices.
Source: Kubernetes "EndpointSlices", `pkg/controller/endpointslice`, `k8s.io/endpointslice`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import ClientError, Conflict, NotFound, Unreachable
from bridgehead.client.workqueue import Done, Outcome
from bridgehead.controllers.adoption import controller_reference
from bridgehead.controllers.shared_informers import PODS_BY_NODE, Informers, node_of_pod
from bridgehead.controllers.workloads.pod_control import is_namespace_terminating
from bridgehead.objects.core import Node, Service
from bridgehead.objects.endpoint_slices import DEFAULT_MAX_ENDPOINTS, EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

from . import zone_hints
from .endpoint_pods import wants_endpoints
from .service_pods import ServicePods
from .slice_cache import SliceCache
from .slice_endpoints import MANAGER, orphaned_slices, slice_labels, wanted_endpoints
from .slice_plan import SlicePlan, Template, plan_slices
from .slice_writer import SliceWriter
from .trigger_times import TriggerTimes
from .write_pace import Pace
from .zone_cpus import Topology
from .zone_hints import HintsResult

WORKERS: Final = 5


class EndpointSliceController:
    """Writes the slices of each Service. `clock` returns seconds since an arbitrary start.

    Raises ValueError for a slice size below 1.
    """

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        max_endpoints_per_slice: int = DEFAULT_MAX_ENDPOINTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_endpoints_per_slice < 1:
            raise ValueError(f"a slice can't have at most {max_endpoints_per_slice} endpoints")
        self._recorder = recorder
        self._capacity = max_endpoints_per_slice
        self._services = informers.get(SERVICES)
        self._nodes = informers.get(NODES)
        self._topology = Topology()
        self._trigger_times = TriggerTimes()
        self._queue: WorkQueue[ObjectKey] = WorkQueue("endpointslices")
        self._pace = Pace(self._queue, clock)
        self._slices = informers.get(ENDPOINT_SLICES)
        self._cache = SliceCache(self._slices, MANAGER)
        self._writer = SliceWriter(client, self._cache)
        self._pods = informers.get(PODS)
        self._pods.add_index(PODS_BY_NODE, node_of_pod)
        self._service_pods = informers.derived(ServicePods)
        self._service_pods.on_change(self._pace.add)
        self._slices.on_change(self._slice_changed)
        self._nodes.on_change(self._node_changed)

    async def run(self) -> None:
        for informer in (self._services, self._pods, self._nodes, self._slices):
            await informer.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for service in self._cache.foreign_changes(old, new):
            self._queue.add(service)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        for key in self._topology.node_changed(old, new):
            self._queue.add(key)
        if node is None or (old is not None and new is not None and old.zone == new.zone):
            return
        for pod in self._pods.by_index(PODS_BY_NODE, node.metadata.name):
            for service in self._service_pods.services_of(pod.key):
                self._queue.add(service)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Write one Service's slices. Raises ClientError."""
        service = self._services.get(key)
        if service is None:
            self._trigger_times.forget(key)
            self._pace.forget(key)
            self._topology.forget(key)
            await self._writer.apply(SlicePlan(delete=orphaned_slices(self._cache.of(key))))
            return Done()
        if not wants_endpoints(service):
            return Done()
        plan, results = self._plan(service)
        if plan:
            try:
                await self._writer.apply(plan)
            except ClientError as error:
                if is_namespace_terminating(error):
                    return Done()
                self._report(service, error)
                raise
            self._pace.record_write(key)
        notices = self._topology.record_no_hints(key) if results is None else self._topology.record_hints(key, results)
        for notice in notices:
            self._recorder.record(service, **notice._asdict())
        return Done()

    def _plan(self, service: Service) -> tuple[SlicePlan, dict[str, HintsResult] | None]:
        """Plan the slices and their zone hints; the hints' result is None when the Service does not ask for hints."""
        pods = self._service_pods.of(service.key)
        template = Template(
            namespace=service.metadata.namespace,
            owner=controller_reference(SERVICES, service),
            labels=slice_labels(service),
            trigger_time=self._trigger_times.advance(service, pods),
        )
        wanted = wanted_endpoints(service, pods, lambda name: self._nodes.get(ObjectKey("", name)))
        existing = self._cache.of(service.key)
        results = None
        if zone_hints.is_wanted(service):
            plan = plan_slices(template, zone_hints.carry_over(wanted, existing), existing, self._capacity)
            plan, results = zone_hints.plan_hints(plan, existing, template, self._topology.shares)
        else:
            plan = plan_slices(template, wanted, existing, self._capacity)
        if service.metadata.deletion_timestamp is not None:
            # The garbage collector is deleting the slices; new ones would delay it.
            plan = SlicePlan(update=plan.update, delete=plan.delete)
        return plan, results

    def _report(self, service: Service, error: ClientError) -> None:
        if isinstance(error, Conflict | NotFound | Unreachable):
            return  # the informer has not seen the newer slice yet, or the API server is unreachable
        self._recorder.record(
            service,
            type="Warning",
            reason="FailedToUpdateEndpointSlices",
            message=f"Error updating Endpoint Slices for Service {service.key}: {error}",
        )
