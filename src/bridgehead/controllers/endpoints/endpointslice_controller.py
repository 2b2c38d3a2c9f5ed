"""The EndpointSlice controller: the pods behind each Service, in slices of at most 100 endpoints by default.

Started by `manager`; watches Services, Pods, Nodes and EndpointSlices.
Source: Kubernetes "EndpointSlices", `pkg/controller/endpointslice`, `k8s.io/endpointslice`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import ClientError, Conflict, NotFound, Unreachable
from bridgehead.client.workqueue import Done, Outcome
from bridgehead.controllers.adoption import controller_reference
from bridgehead.controllers.shared import PODS_BY_NODE, Informers, node_of_pod
from bridgehead.controllers.workloads.pod_control import is_namespace_terminating
from bridgehead.objects.addresses import ip_family
from bridgehead.objects.core import Node, Pod, Service
from bridgehead.objects.endpoint_slices import (
    DEFAULT_MAX_ENDPOINTS,
    HEADLESS_LABEL,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointSlice,
    ForNode,
    ForZone,
    SlicePort,
)
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

from . import zone_hints
from .endpoint_pods import (
    families_of,
    host_name,
    is_headless,
    may_receive,
    pod_ips,
    reference_to,
    resolve_port,
    wants_endpoints,
)
from .pace import Pace
from .service_pods import ServicePods
from .slice_cache import SliceCache
from .slice_plan import Group, SlicePlan, Template, plan_slices, sort_ports
from .slice_writer import SliceWriter
from .topology import Topology
from .trigger_times import TriggerTimes
from .zone_hints import HintsResult

MANAGER: Final = "endpointslice-controller.k8s.io"
WORKERS: Final = 5

_RESERVED_LABELS = frozenset({SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL})


# --- What is wanted --------------------------------------------------------------------------------------


def wanted_endpoints(
    service: Service, pods: Iterable[Pod], find_node: Callable[[str], Node | None]
) -> dict[Group, list[Endpoint]]:
    """Return the Service's endpoints by address family and ports. A family without endpoints has one empty group.

    A pod on an unknown node is left out, unless the Service publishes not-ready addresses: the node may not exist any
    more. Hints follow `trafficDistribution`; proportional zone hints are added later (`zone_hints`).
    """
    families = families_of(service)
    groups: dict[Group, list[Endpoint]] = {}
    for pod in pods:
        if not may_receive(pod, include_terminating=True):
            continue
        node = find_node(pod.spec.node_name)
        if node is None and not service.spec.publish_not_ready_addresses:
            continue
        ports = slice_ports(service, pod)
        for family in families:
            addresses = tuple(ip for ip in pod_ips(pod) if ip_family(ip) == family)
            if addresses:
                groups.setdefault(Group(family, ports), []).append(_endpoint(service, pod, node, addresses))
    for family in families:
        if not any(group.address_type == family for group in groups):
            groups[Group(family, ())] = []
    return groups


def slice_ports(service: Service, pod: Pod) -> tuple[SlicePort, ...]:
    """Return the Service's ports with this pod's port numbers, without ports that the pod does not have."""
    ports = []
    for port in service.spec.ports:
        number = resolve_port(pod, port)
        if number is not None:
            ports.append(SlicePort(name=port.name, protocol=port.protocol, port=number, app_protocol=port.app_protocol))
    return sort_ports(ports)


def _endpoint(service: Service, pod: Pod, node: Node | None, addresses: tuple[str, ...]) -> Endpoint:
    serving, terminating = pod.is_ready, pod.is_terminating
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    zone = (node.zone or None) if node is not None else None
    node_name = pod.spec.node_name or None
    has_hints = ready and not zone_hints.is_wanted(service)
    return Endpoint(
        addresses=addresses,
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=host_name(pod, service) or None,
        target_ref=reference_to(pod),
        node_name=node_name,
        zone=zone or None,
        hints=_hints(service.spec.traffic_distribution, zone, node_name) if has_hints else None,
    )


def _hints(distribution: str | None, zone: str | None, node_name: str | None) -> EndpointHints | None:
    """Return the hints of an endpoint for the Service's `trafficDistribution`."""
    for_zones = (ForZone(name=zone),) if zone else ()
    if distribution in ("PreferClose", "PreferSameZone") and for_zones:
        return EndpointHints(for_zones=for_zones)
    if distribution == "PreferSameNode" and node_name:
        return EndpointHints(for_zones=for_zones, for_nodes=(ForNode(name=node_name),))
    return None


def slice_labels(service: Service) -> dict[str, str]:
    """Return the labels of a slice: those of the Service, and those by which consumers find the slice."""
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED_LABELS}
    if is_headless(service):
        labels[HEADLESS_LABEL] = ""
    labels[SERVICE_NAME_LABEL] = service.metadata.name
    labels[MANAGED_BY_LABEL] = MANAGER
    return labels


def orphaned_slices(slices: Iterable[EndpointSlice]) -> tuple[EndpointSlice, ...]:
    """Return the slices of a deleted Service that it owned. Slices orphaned by `--cascade=orphan` stay."""
    return tuple(item for item in slices if any(o.kind == "Service" for o in item.metadata.owner_references))


# --- How it gets there -----------------------------------------------------------------------------------


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
