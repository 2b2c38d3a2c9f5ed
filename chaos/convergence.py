"""Whether a lab is as its API says it should be (pure): pods, endpoints, the nodes' rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bridgehead.objects.core import Node, Pod, Service
from bridgehead.objects.discovery import EndpointSlice

# What a ruleset shows of Services and of pods: IPv4 addresses of 10.96.0.0/12 and 10.244.0.0/16, but no networks.
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


def find_unsettled(cluster: Cluster) -> Iterator[str]:
    """What is not ready, and endpoints that are not the ready pods; one line each."""
    for node in cluster.nodes:
        if not node.is_ready:
            yield f"node {node.metadata.name} is not ready"
    for pod in cluster.pods:
        if pod.is_terminating:
            yield f"pod {pod.key} is terminating"
        elif not pod.is_ready:
            yield f"pod {pod.key} is not ready"
    for service in cluster.services:
        if service.spec.selector:
            yield from _wrong_endpoints(service, cluster)


def _wrong_endpoints(service: Service, cluster: Cluster) -> Iterator[str]:
    """Compares without the controllers' own functions: a mistake in those is to be found."""
    selector = service.spec.selector.items()
    wanted = {
        entry.ip
        for pod in cluster.pods
        if pod.metadata.namespace == service.metadata.namespace
        and selector <= pod.metadata.labels.items()
        and pod.is_ready
        and not pod.is_terminating
        for entry in pod.status.pod_ips
        if (":" in entry.ip) in {family == "IPv6" for family in service.spec.ip_families}
    }
    found = {
        address
        for slice_ in cluster.slices
        if (slice_.metadata.namespace, slice_.service_name) == tuple(service.key)
        for endpoint in slice_.endpoints
        if endpoint.conditions.is_ready
        for address in endpoint.addresses
    }
    if wanted != found:
        yield f"service {service.key}: endpoints {sorted(found)}, ready pods {sorted(wanted)}"


def find_wrong_rules(cluster: Cluster, rulesets: Mapping[str, str], mode: str) -> Iterator[str]:
    """Addresses that a node's ruleset lacks, or still has although no Service or endpoint has them; one line for each.

    In userspace mode the endpoints are the proxy's own business.
    """
    services = {
        service.key: service.spec.cluster_ip
        for service in cluster.services
        if service.is_proxied and ":" not in service.spec.cluster_ip
    }
    endpoints = {
        address
        for slice_ in cluster.slices
        if slice_.address_type == "IPv4" and (slice_.metadata.namespace, slice_.service_name) in services
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
