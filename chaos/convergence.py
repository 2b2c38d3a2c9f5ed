"""Whether a lab is in the state that its API demands: pods, endpoints, the nodes' rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bridgehead.objects.core import Node, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey

# Addresses of Services and of pods in a ruleset: IPv4, in 10.96.0.0/12 and 10.244.0.0/16, but no networks.
_NO_NETWORK = r"\.\d{1,3}\b(?!/(?:\d|[12]\d|3[01])\b)"
_SERVICE_ADDRESS = re.compile(r"\b10\.(?:9[6-9]|10\d|11[01])\.\d{1,3}" + _NO_NETWORK)
_POD_ADDRESS = re.compile(r"\b10\.244\.\d{1,3}" + _NO_NETWORK)


@dataclass(frozen=True)
class Cluster:
    """The lists of the API that are compared."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    services: Sequence[Service]
    slices: Sequence[EndpointSlice]


@dataclass(frozen=True)
class Convergence:
    """When and how a lab converged.

    `after`: seconds from the last fault until nothing was wrong but pods in back-off, None: never; `last`: what was
    wrong before that; `wrong`: what was wrong in the end.
    """

    after: float | None
    last: str = ""
    wrong: Sequence[str] = ()


def find_unsettled(cluster: Cluster) -> Iterator[str]:
    """Return pods that are not ready and endpoints that are not ready pods, one line each.

    Pods in back-off are left out, as they are as they should be: see `find_in_back_off`.
    """
    for node in cluster.nodes:
        if not node.is_ready:
            yield f"node {node.metadata.name} is not ready"
    for pod in cluster.pods:
        if pod.is_terminating:
            yield f"pod {pod.key} is terminating"
        elif not pod.is_ready and not _is_in_back_off(pod):
            yield f"pod {pod.key} is not ready{_reason(pod)}"
    slices = defaultdict[ObjectKey | None, list[EndpointSlice]](list)
    for slice_ in cluster.slices:
        slices[slice_.service_key].append(slice_)
    for service in cluster.services:
        if service.spec.selector:
            yield from _wrong_endpoints(service, cluster.pods, slices[service.key])


def _reason(pod: Pod) -> str:
    """Return why containers of the pod do not run, as far as its status has it."""
    waiting = (status.state.waiting for status in pod.status.container_statuses)
    reasons = [f"{state.reason} {state.message}".strip() for state in waiting if state is not None]
    return f": {', '.join(reasons)}" if reasons else ""


def find_in_back_off(cluster: Cluster) -> Iterator[str]:
    """Return pods whose containers ended several times, as by two `KILL_RUNTIME` faults on a node, one line each.

    Kubernetes demands that they are started only after 10 s, which doubles each time ("Pod Lifecycle", "How Pods handle
    problems with containers"). Critical pods are not among these: in a lab they wait for 5 s at most.
    """
    for pod in cluster.pods:
        if _is_in_back_off(pod):
            yield f"pod {pod.key} is in back-off"


def _is_in_back_off(pod: Pod) -> bool:
    waiting = (status.state.waiting for status in pod.status.container_statuses)
    is_critical = pod.spec.priority_class_name.startswith("system-")
    return not is_critical and any(state is not None and state.reason == "CrashLoopBackOff" for state in waiting)


def _wrong_endpoints(service: Service, pods: Sequence[Pod], slices: Sequence[EndpointSlice]) -> Iterator[str]:
    """Compares without the controllers' own functions: a mistake in those is to be found."""
    selector = service.spec.selector.items()
    wanted = {
        entry.ip
        for pod in pods
        if pod.metadata.namespace == service.metadata.namespace
        and selector <= pod.metadata.labels.items()
        and pod.is_ready
        and not pod.is_terminating
        for entry in pod.status.pod_ips
        if (":" in entry.ip) in {family == "IPv6" for family in service.spec.ip_families}
    }
    found = {
        address
        for slice_ in slices
        for endpoint in slice_.endpoints
        if endpoint.conditions.is_ready
        for address in endpoint.addresses
    }
    if wanted != found:
        yield f"service {service.key}: endpoints {sorted(found)}, ready pods {sorted(wanted)}"


def find_wrong_rules(cluster: Cluster, rulesets: Mapping[str, str], mode: str) -> Iterator[str]:
    """Addresses that a node's ruleset lacks, or still has although no Service or endpoint has them; one line for each.

    Rules of the userspace mode show no endpoints: the proxy's process has them.
    """
    services = {
        service.key: service.spec.cluster_ip
        for service in cluster.services
        if service.is_proxied and ":" not in service.spec.cluster_ip
    }
    endpoints = {
        address
        for slice_ in cluster.slices
        if slice_.address_type == "IPv4" and slice_.service_key in services
        for endpoint in slice_.endpoints
        if endpoint.conditions.is_ready
        for address in endpoint.addresses
    }
    for node, ruleset in rulesets.items():
        yield from _compare(f"{node}: Services", set(services.values()), set(_SERVICE_ADDRESS.findall(ruleset)))
        if mode != "userspace":
            pods = {address for address in endpoints if _POD_ADDRESS.fullmatch(address)}
            yield from _compare(f"{node}: endpoints", pods, set(_POD_ADDRESS.findall(ruleset)))


def _compare(what: str, wanted: set[str], found: set[str]) -> Iterator[str]:
    if lacking := sorted(wanted - found):
        yield f"{what} without rules: {_some(lacking)}"
    if stale := sorted(found - wanted):
        yield f"{what} that are gone, with rules: {_some(stale)}"


def _some(addresses: Sequence[str]) -> str:
    more = f" and {len(addresses) - 3} more" if len(addresses) > 3 else ""
    return ", ".join(addresses[:3]) + more
