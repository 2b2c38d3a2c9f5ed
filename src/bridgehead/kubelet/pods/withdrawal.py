"""Withdrawal of a terminating pod from the EndpointSlices of its Services.

Pure: no I/O, no clock, no randomness. Used by `barrier`. Two kinds of Services are not waited for: one with
`publishNotReadyAddresses`, which leads to the pod until the pod is gone, and one that no service proxy serves.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.objects.addresses import ip_family
from bridgehead.objects.core import Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import find_condition
from bridgehead.objects.times import parse_time

SETTLED_SECONDS = 10.0  # after which every slice and every proxy knows that a pod is unready


def is_long_unready(pod: Pod, now: float) -> bool:
    """Whether the pod has been unready for `SETTLED_SECONDS`, or was never ready.

    `now` is in seconds since the epoch.
    """
    condition = find_condition(pod.status.conditions, "Ready")
    if condition is None or condition.status == "True":
        return condition is None
    since = condition.last_transition_time
    return since is not None and parse_time(since) + SETTLED_SECONDS < now


def find_services_of(pod: Pod, services: Iterable[Service]) -> list[Service]:
    """Return the Services through which proxies send the pod connections until it is withdrawn.

    `services` are those of the pod's namespace.
    """
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
    """Whether the Service's slices mark the pod as terminating. `slices` are those that name the pod (see `pods_of`).

    An endpoint that is only unready is not enough: the slice may be older than the pod's readiness, and its next
    version may offer the pod. Likewise a ready pod that no slice names is not withdrawn: its endpoint may be about to
    appear.
    """
    found = [
        endpoint.conditions for item in slices for endpoint in item.endpoints if endpoint.pod_uid == pod.metadata.uid
    ]
    if found:
        return all(conditions.is_terminating and not conditions.is_ready for conditions in found)
    return not pod.is_ready or pod.is_finished or not _shares_family(pod, service)


def is_leaving_node(pod: Pod, service: Service, slices: Iterable[EndpointSlice]) -> bool:
    """Whether clients from outside have to change to other nodes because of the withdrawn pod.

    With `externalTrafficPolicy: Local` they choose nodes with ready endpoints: there are some, but no other one on the
    pod's node. `slices` are all of the Service's.
    """
    from_outside = service.status.load_balancer.ingress or service.spec.external_ips
    if not from_outside or service.spec.external_traffic_policy != "Local":
        return False
    nodes = {endpoint.node_name for item in slices for endpoint in item.endpoints if endpoint.conditions.is_ready}
    return bool(nodes) and pod.spec.node_name not in nodes


def pods_of(item: EndpointSlice) -> list[str]:
    """Return the uids of the pods that a slice names."""
    return [uid for endpoint in item.endpoints if (uid := endpoint.pod_uid)]


def _shares_family(pod: Pod, service: Service) -> bool:
    ips = [address.ip for address in pod.status.pod_ips] or [pod.status.pod_ip]
    return any(ip_family(ip) in service.spec.ip_families for ip in ips if ip)
