"""Objects without the fields that a speaker has no use for, which are most of the memory of large clusters.

Strings, endpoints and statuses that many objects have in common are one value.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import functools
import sys

from bridgehead.objects.core import LoadBalancerIngress, LoadBalancerStatus, Service, ServiceSpec, ServiceStatus
from bridgehead.objects.endpoint_slices import SERVICE_NAME_LABEL, Endpoint, EndpointConditions, EndpointSlice
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from bridgehead.objects.metallb import (
    InterfaceInfo,
    ServiceBGPStatus,
    ServiceBGPStatusStatus,
    ServiceL2Status,
    ServiceL2StatusStatus,
)

_DIFFERENT = 4096  # more than different values are in use at a time
_API_SERVICE = ObjectKey("default", "kubernetes")
_NOTHING: dict[str, str] = {}


def trim_service(service: Service) -> Service:
    """Return a Service with its type, class, addresses and externalTrafficPolicy."""
    spec = service.spec
    return Service(
        metadata=_trim_metadata(service.metadata, service.metadata.labels),
        spec=_spec(spec.type, spec.external_ips, spec.external_traffic_policy, spec.load_balancer_class),
        status=ServiceStatus(
            load_balancer=LoadBalancerStatus(
                ingress=tuple(LoadBalancerIngress(ip=entry.ip) for entry in service.status.load_balancer.ingress)
            )
        ),
    )


def trim_slice(slice_: EndpointSlice) -> EndpointSlice:
    """Return an EndpointSlice with the nodes and conditions of its endpoints, each pair of them once.

    Endpoints of the API servers keep their addresses, which no pool may contain.
    """
    labels = slice_.metadata.labels
    kept = {SERVICE_NAME_LABEL: labels[SERVICE_NAME_LABEL]} if SERVICE_NAME_LABEL in labels else {}
    found = dict.fromkeys(
        (endpoint.node_name, endpoint.conditions.ready, endpoint.conditions.serving) for endpoint in slice_.endpoints
    )
    return EndpointSlice(
        metadata=_trim_metadata(slice_.metadata, kept),
        address_type=sys.intern(slice_.address_type),
        endpoints=slice_.endpoints if slice_.service_key == _API_SERVICE else _endpoints(tuple(found)),
    )


def trim_layer2_status(status: ServiceL2Status) -> ServiceL2Status:
    """Return a ServiceL2Status with its labels, node and interfaces."""
    kept = _layer2_status(status.status.node, status.status.interfaces)
    return ServiceL2Status(metadata=_trim_metadata(status.metadata, status.metadata.labels), status=kept)


def trim_bgp_status(status: ServiceBGPStatus) -> ServiceBGPStatus:
    """Return a ServiceBGPStatus with its labels, node and peers."""
    kept = _bgp_status(status.status.node, status.status.peers)
    return ServiceBGPStatus(metadata=_trim_metadata(status.metadata, status.metadata.labels), status=kept)


def _trim_metadata(meta: ObjectMeta, labels: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(
        name=sys.intern(meta.name),  # also the value of a label of the Service's other objects
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels={sys.intern(key): sys.intern(value) for key, value in labels.items()} or _NOTHING,
        annotations=_NOTHING,  # the default is a dict for each object
    )


@functools.lru_cache(_DIFFERENT)
def _spec(
    type: str, external_ips: tuple[str, ...], traffic_policy: str, load_balancer_class: str | None
) -> ServiceSpec:
    return ServiceSpec(
        type=type,
        external_ips=external_ips,
        external_traffic_policy=traffic_policy,
        load_balancer_class=load_balancer_class,
    )


@functools.lru_cache(_DIFFERENT)
def _layer2_status(node: str, interfaces: tuple[InterfaceInfo, ...]) -> ServiceL2StatusStatus:
    return ServiceL2StatusStatus(node=node, interfaces=interfaces)


@functools.lru_cache(_DIFFERENT)
def _bgp_status(node: str, peers: tuple[str, ...]) -> ServiceBGPStatusStatus:
    return ServiceBGPStatusStatus(node=node, peers=peers)


@functools.lru_cache(_DIFFERENT)
def _endpoints(nodes: tuple[tuple[str | None, bool | None, bool | None], ...]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(node_name=node, conditions=EndpointConditions(ready=ready, serving=serving))
        for node, ready, serving in nodes
    )
