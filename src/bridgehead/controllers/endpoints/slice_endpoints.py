"""The wanted EndpointSlices of a Service: its endpoints from pods, with conditions and hints, and labels of slices.

Called by `endpointslice_controller`; `slice_plan` distributes the endpoints among slices. Pure: no I/O, no clock, no
randomness. Source: Kubernetes "EndpointSlices", `k8s.io/endpointslice` (`podToEndpoint`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from bridgehead.objects.addresses import ip_family
from bridgehead.objects.core import Node, Pod, Service
from bridgehead.objects.endpoint_slices import (
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

from . import zone_hints
from .endpoint_pods import (
    families_of,
    host_name,
    is_headless,
    may_receive,
    pod_ips,
    reference_to,
    resolve_port,
)
from .slice_plan import Group, sort_ports

MANAGER: Final = "endpointslice-controller.k8s.io"

_RESERVED_LABELS = frozenset({SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL})


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
