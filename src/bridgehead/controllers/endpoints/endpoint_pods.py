"""Endpoint fields that come from a pod: whether the pod is an endpoint, its addresses, ports and host name.

Used by the Endpoints and the EndpointSlice controller. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/controller/endpoint`, `k8s.io/endpointslice`, `pkg/api/v1/pod`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.objects.addresses import ip_family
from bridgehead.objects.core import ContainerPort, Pod, Service, ServicePort
from bridgehead.objects.meta import ObjectReference


def is_headless(service: Service) -> bool:
    """Whether the Service has no cluster IP. A Service whose cluster IP is not allocated yet counts as headless."""
    return service.spec.cluster_ip in ("", "None")


def wants_endpoints(service: Service) -> bool:
    """Whether the Service's endpoints come from pods: it has a selector and is no ExternalName."""
    return service.spec.type != "ExternalName" and bool(service.spec.selector)


def may_receive(pod: Pod, include_terminating: bool) -> bool:
    """Whether the pod is an endpoint at all, ready or not."""
    if pod.is_finished or not any(pod_ips(pod)):
        return False
    return include_terminating or not pod.is_terminating


def pod_ips(pod: Pod) -> Iterator[str]:
    if pod.status.pod_ips:
        return (address.ip for address in pod.status.pod_ips if address.ip)
    return iter((pod.status.pod_ip,) if pod.status.pod_ip else ())


def families_of(service: Service) -> tuple[str, ...]:
    """Return the address families of the Service's slices: both for a headless Service without allocated families."""
    if service.spec.ip_families:
        return service.spec.ip_families
    if not is_headless(service):
        return (ip_family(service.spec.cluster_ip),)
    return ("IPv4", "IPv6")


def resolve_port(pod: Pod, port: ServicePort) -> int | None:
    """Return the pod's port number for `port.targetPort`; None when no container port has that name."""
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    if port.target_port == "":
        return port.port
    return next(
        (
            candidate.container_port
            for candidate in container_ports(pod)
            if candidate.name == port.target_port and candidate.protocol == port.protocol
        ),
        None,
    )


def container_ports(pod: Pod) -> Iterator[ContainerPort]:
    """Return the ports of containers that run beside each other: not those of ordinary init containers."""
    for container in pod.spec.containers:
        yield from container.ports
    for container in pod.spec.init_containers:
        # A sidecar: an init container that keeps running.
        if container.is_sidecar:
            yield from container.ports


def host_name(pod: Pod, service: Service) -> str:
    """Return the pod's host name in the Service's domain; "" without one."""
    if pod.spec.subdomain == service.metadata.name and pod.metadata.namespace == service.metadata.namespace:
        return pod.spec.hostname
    return ""


def reference_to(pod: Pod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
