"""What a pod contributes to the Services that select it: whether it counts, its addresses, ports and host name.

Pure; used by the endpoints and the endpoint slice controller.
Source: Kubernetes `pkg/controller/endpoint`, `k8s.io/endpointslice`, `pkg/api/v1/pod`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.objects.core import ContainerPort, Pod, Service, ServicePort, ip_family
from bridgehead.objects.meta import ObjectReference


def is_headless(service: Service) -> bool:
    """Whether the Service has no address of its own. One whose address is still to come counts as headless too."""
    return service.spec.cluster_ip in ("", "None")


def wants_endpoints(service: Service) -> bool:
    """Whether its endpoints come from pods; else somebody else writes them, or nobody."""
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
    """The address families of the Service's slices. A headless one from before families were allocated gets both."""
    if service.spec.ip_families:
        return service.spec.ip_families
    if not is_headless(service):
        return (ip_family(service.spec.cluster_ip),)
    return ("IPv4", "IPv6")


def resolve_port(pod: Pod, port: ServicePort) -> int | None:
    """The number `port.targetPort` means in this pod; None when the pod has no container port of that name."""
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    if port.target_port == "":
        return port.port
    return next(
        (
            candidate.container_port
            for candidate in _container_ports(pod)
            if candidate.name == port.target_port and candidate.protocol == port.protocol
        ),
        None,
    )


def _container_ports(pod: Pod) -> Iterator[ContainerPort]:
    for container in pod.spec.containers:
        yield from container.ports
    for container in pod.spec.init_containers:
        # A sidecar: an init container that goes on running.
        if container.restart_policy == "Always":
            yield from container.ports


def host_name(pod: Pod, service: Service) -> str:
    """The pod's own name in the Service's domain, or ""."""
    if pod.spec.subdomain == service.metadata.name and pod.metadata.namespace == service.metadata.namespace:
        return pod.spec.hostname
    return ""


def reference_to(pod: Pod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
