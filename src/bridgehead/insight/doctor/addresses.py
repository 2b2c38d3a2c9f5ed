"""Causes in the addresses of Services: external IPs that nobody holds or that are refused, addresses of two Services.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import lru_cache

from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.address_holders import (
    assigned_addresses,
    cluster_addresses,
    describe_holder,
    external_addresses,
    holder_of,
)
from bridgehead.objects.core import PROXY_NAME_LABEL

from .policies import networks_of
from .subjects import Facts, ServiceView, mapping, names_of

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def check_cluster_ips(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield cluster IPs that are missing, of another Service too, or outside of the Service CIDRs."""
    if view.is_external_name or view.spec.cluster_ip == "None":
        return
    addresses = cluster_addresses(view.service)
    if not addresses:
        yield view.finding(
            "ClusterIPMissing",
            "The Service has no cluster IP: the API server could not allocate one.",
            fix=view.kubectl("get", "service", view.key.name, "-o", "yaml"),
        )
        return
    for address in addresses:
        others = [other for other in facts.services_by_cluster_ip.get(address, ()) if other.key != view.key]
        if others:
            yield view.finding(
                "ClusterIPClash",
                f"The cluster IP {address} is that of Service {others[0].key}, too: connections go to one of them.",
                fix="delete one of the two Services and create it again, so that it gets a cluster IP of its own",
                severity=Severity.BROKEN,
            )
    cidrs = _networks(facts.cluster.service_cidrs)
    outside = [address for address in addresses if cidrs and not _contained(address, cidrs)]
    if outside and facts.cluster.has_seen("servicecidrs"):
        yield view.finding(
            "ClusterIPOutsideRange",
            f"The cluster IP {outside[0]} is in none of the cluster's Service CIDRs, so that another Service or "
            "machine "
            "may get it.",
            fix="create a ServiceCIDR that contains it, or create the Service again",
            evidence=[f"Service CIDRs: {names_of(facts.cluster.service_cidrs)}"],
            severity=Severity.NOTICE,
        )


def check_external_ips(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield externalIPs that proxies refuse, or that no node and no pool has."""
    addresses = external_addresses(view.service)
    if view.is_external_name or not addresses:
        return
    cluster = facts.cluster
    refused: dict[str, str] = {}
    for address in addresses:
        if why := _why_refused(view, facts, address):
            refused[address] = why
    if refused:
        address, why = next(iter(refused.items()))
        yield view.finding(
            "ExternalIPRefused",
            f"The Service is not published at its external IP {address}: it is {why}."
            if cluster.progress
            else f"The external IP {address} is {why}: a proxy refuses it, or two destinations have it.",
            fix=view.patch('{"spec":{"externalIPs":["ADDRESS"]}}'),
            evidence=[f"{each}: {reason}" for each, reason in refused.items()],
            severity=Severity.BROKEN if cluster.progress else Severity.DEGRADED,
        )
    clashes = [
        f"{address} port {port.port}/{port.protocol} of {other.key}"
        for address in addresses
        for other in facts.services_by_published_address.get(address, ())
        if other.key != view.key and address in external_addresses(other)
        for port in view.spec.ports
        if (port.port, port.protocol) in {(each.port, each.protocol) for each in other.spec.ports}
    ]
    if clashes:
        yield view.finding(
            "ExternalIPClash",
            f"Another Service has the same external IP and port: {clashes[0]}. One of them gets no connections.",
            fix=view.patch('{"spec":{"externalIPs":["ADDRESS"]}}'),
            evidence=clashes,
        )
    if not cluster.has_seen("nodes") or not cluster.nodes:
        return
    pools = _pool_networks(facts)
    nobody = [
        address
        for address in addresses
        if address not in refused
        and address not in cluster.nodes_by_address
        and not any(_holds(network, address) for network in pools)
    ]
    if nobody:
        yield view.finding(
            "ExternalIPHeldByNobody",
            f"No node has the external IP {nobody[0]}: only pods and nodes reach the Service there, unless a router "
            "outside of the cluster leads packets to a node.",
            fix=view.patch(f'{{"spec":{{"externalIPs":["{_node_address(facts)}"]}}}}'),
            evidence=[f"addresses of nodes: {names_of(sorted(cluster.nodes_by_address))}"],
            severity=Severity.NOTICE if _announces_external_ips(facts) else Severity.DEGRADED,
        )


def check_reserved_events(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield what proxies refused of the Service, by their Events of the last hour."""
    for event in facts.events_of("Service", view.key, "ReservedAddress", "Conflict", uid=view.service.metadata.uid)[:1]:
        if facts.age_of(event.last_timestamp or event.event_time) < 3600 and external_addresses(view.service):
            yield view.finding(
                "ExternalIPRefused",
                f"A proxy did not publish all addresses of the Service: {event.message}",
                fix=view.patch('{"spec":{"externalIPs":["ADDRESS"]}}'),
            )


def check_proxy_label(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield a Service that is left to another proxy, of which nothing can be seen."""
    name = view.service.metadata.labels.get(PROXY_NAME_LABEL)
    if name is None or view.is_external_name or view.is_headless:
        return
    is_there = any(
        name in pod.metadata.name or name in pod.metadata.labels.values() for pod in facts.cluster.pods.values()
    )
    knows = facts.is_whole and facts.cluster.has_seen("pods")
    if is_there:
        return
    yield view.finding(
        "LeftToOtherProxy",
        f'The label {PROXY_NAME_LABEL} leaves the Service to the proxy "{name}"'
        + (
            ", of which there is no pod: no node programs the Service."
            if knows
            else ": kube-proxy does not program it."
        ),
        fix=view.kubectl("label", "service", view.key.name, f"{PROXY_NAME_LABEL}-"),
        severity=Severity.BROKEN if knows else Severity.NOTICE,
    )


def _why_refused(view: ServiceView, facts: Facts, address: str) -> str:
    cluster = facts.cluster
    ip = ipaddress.ip_address(address)
    own = cluster_addresses(view.service)
    if address in own:
        return ""
    for other in facts.services_by_cluster_ip.get(address, ()):
        return f"the cluster IP of Service {other.key}"
    if ip.is_loopback:
        return "a loopback address"
    if ip.is_link_local:
        return "a link-local address"
    if ip.is_multicast:
        return "a multicast address"
    holder = holder_of(address, view.service, facts.services_by_published_address.get(address, ()))
    if holder is not None:
        return describe_holder(holder)
    if _contained(address, _networks(cluster.service_cidrs)) and address not in cluster.nodes_by_address:
        return "in a Service CIDR of the cluster"
    pod = cluster.pods_by_address.get(address)
    return f"the address of pod {pod.key}" if pod is not None else ""


def _announces_external_ips(facts: Facts) -> bool:
    """Whether a network plug-in may lead routers to external IPs by BGP."""
    return any(name in facts.policies.enforcing for name in ("calico", "kube-router", "cilium"))


def _pool_networks(facts: Facts) -> list[tuple[Address, Address]]:
    """Return the ranges of all pools of load-balancer addresses: the first and last address of each."""
    found = []
    for pool in facts.cluster.address_pools:
        spec = mapping(pool.get("spec"))
        texts = spec.get("addresses") if pool.get("kind") == "IPAddressPool" else [spec.get("address")]
        for text in texts if isinstance(texts, list) else []:
            ends = _range(text) if isinstance(text, str) else None
            found += [ends] if ends is not None else []
    return found


@lru_cache(maxsize=256)
def _range(text: str) -> tuple[Address, Address] | None:
    first, dash, last = text.partition("-")
    try:
        if dash:
            return ipaddress.ip_address(first.strip()), ipaddress.ip_address(last.strip())
        network = ipaddress.ip_network(first.strip(), strict=False)
    except ValueError:
        return None
    return network.network_address, network.broadcast_address


def _holds(ends: tuple[Address, Address], address: str) -> bool:
    first, last = ends
    ip = ipaddress.ip_address(address)
    return ip.version == first.version == last.version and int(first) <= int(ip) <= int(last)


@lru_cache(maxsize=16)
def _networks(texts: tuple[str, ...]) -> list[Network]:
    return networks_of(texts)


def _contained(address: str, networks: list[Network]) -> bool:
    ip = ipaddress.ip_address(address)
    return any(ip.version == network.version and ip in network for network in networks)


def _node_address(facts: Facts) -> str:
    return next((address for node in facts.ready_nodes for address in node.internal_ips), "ADDRESS")


def unassigned(view: ServiceView) -> bool:
    """Whether a Service of type LoadBalancer has neither an address nor a host name."""
    return view.spec.type == "LoadBalancer" and not (
        assigned_addresses(view.service) or any(entry.hostname for entry in view.service.status.load_balancer.ingress)
    )
