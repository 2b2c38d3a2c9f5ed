"""Whether a terminating pod still gets new connections: which Services lead to it, and what their slices say (pure).

Used by `barrier`. A Service that publishes whatever there is (`publishNotReadyAddresses`) goes on leading to the pod
until it is gone: for that one there is nothing to wait for. Nor for those that no service proxy serves.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.objects.core import Pod, Service, ip_family
from bridgehead.objects.discovery import Endpoint, EndpointSlice
from bridgehead.objects.times import parse_time

SETTLED_SECONDS = 10.0


def is_long_unready(pod: Pod, now: float) -> bool:
    """Whether the pod has been unready for so long (or ever) that every slice and proxy knows. `now`: epoch seconds."""
    condition = next((c for c in pod.status.conditions if c.type == "Ready"), None)
    if condition is None or condition.status == "True":
        return condition is None
    since = condition.last_transition_time
    return since is not None and parse_time(since) + SETTLED_SECONDS < now


def find_leading(pod: Pod, services: Iterable[Service]) -> list[Service]:
    """The Services, of the pod's namespace, by which a proxy sends the pod connections until it is withdrawn."""
    labels = pod.metadata.labels.items()
    return [
        service
        for service in services
        if service.spec.selector
        and service.spec.selector.items() <= labels
        and service.is_proxied
        and not service.spec.publish_not_ready_addresses
    ]


def is_withdrawn(pod: Pod, service: Service, slices: Iterable[EndpointSlice]) -> bool:
    """Whether the Service's slices say that the pod terminates. `slices` are those that name it (see `pods_of`).

    That they call it unready is not enough: it may be what it was before it became ready, and then they will offer it
    before they hear of its end. A ready pod is an endpoint in any case.
    """
    found = [
        endpoint.conditions for item in slices for endpoint in item.endpoints if _uid_of(endpoint) == pod.metadata.uid
    ]
    if found:
        return all(conditions.terminating and not conditions.is_ready for conditions in found)
    return not pod.is_ready or pod.is_finished or not _shares_family(pod, service)


def pods_of(item: EndpointSlice) -> list[str]:
    """The uids of the pods that a slice names."""
    return [uid for endpoint in item.endpoints if (uid := _uid_of(endpoint))]


def _uid_of(endpoint: Endpoint) -> str:
    return endpoint.target_ref.uid if endpoint.target_ref is not None else ""


def _shares_family(pod: Pod, service: Service) -> bool:
    ips = [address.ip for address in pod.status.pod_ips] or [pod.status.pod_ip]
    return any(ip_family(ip) in service.spec.ip_families for ip in ips if ip)
