"""Causes in nodes: not ready, out of resources, or with addresses that others have.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator

from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.core import Node
from bridgehead.objects.meta import find_condition, is_condition_true

from .policies import networks_of
from .subjects import Facts, ServiceView, kubectl, make_finding, names_of

_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def check_nodes(facts: Facts) -> Iterator[Finding]:
    """Yield the problems of each node."""
    cluster = facts.cluster
    if not cluster.has_seen("nodes"):
        return
    for name, node in sorted(cluster.nodes.items()):
        condition = find_condition(node.status.conditions, "Ready")
        describe = kubectl("", "describe", "node", name)
        if not node.is_ready:
            since = f" since {condition.last_transition_time}" if condition and condition.last_transition_time else ""
            yield make_finding(
                "NodeNotReady",
                f"node/{name}",
                f"Node {name} is not ready{since}: its pods get no connections, and its kernel no changes.",
                fix=describe,
                evidence=[f"{condition.reason}: {condition.message}"] if condition is not None else [],
                severity=Severity.DEGRADED if facts.ready_nodes else Severity.BROKEN,
            )
        elif is_condition_true(node.status.conditions, "NetworkUnavailable"):
            network = find_condition(node.status.conditions, "NetworkUnavailable")
            yield make_finding(
                "NodeNetworkUnavailable",
                f"node/{name}",
                f"The network plugin has not set up node {name}: its pods reach no others.",
                fix=describe,
                evidence=[f"{network.reason}: {network.message}"] if network is not None else [],
                severity=Severity.DEGRADED,
            )
        pressures = [each for each in _PRESSURES if is_condition_true(node.status.conditions, each)]
        if pressures:
            yield make_finding(
                "NodeUnderPressure",
                f"node/{name}",
                f"Node {name} has {names_of(pressures)}: it evicts pods and takes no new ones.",
                fix=describe,
                severity=Severity.DEGRADED,
            )
    yield from _clashes(facts)


def _clashes(facts: Facts) -> Iterator[Finding]:
    nodes = facts.cluster.nodes
    owners: dict[str, str] = {}
    ranges: list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, str]] = []
    for name, node in sorted(nodes.items()):
        for address in node.internal_ips:
            other = owners.setdefault(address, name)
            if other != name:
                yield make_finding(
                    "NodeAddressClash",
                    f"node/{name}",
                    f"The nodes {other} and {name} have the same address {address}: packets reach one of them.",
                    fix=kubectl("", "get", "nodes", "-o", "wide"),
                )
        ranges += [(network, name) for network in networks_of(_pod_cidrs(node))]
    yield from _overlapping_pod_cidrs(ranges)
    yield from _overlapping_service_cidrs(facts, ranges)


def _overlapping_pod_cidrs(
    ranges: list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, str]],
) -> Iterator[Finding]:
    """Compare neighbours in the order of addresses: of two ranges that overlap, one contains the other."""
    ordered = sorted(ranges, key=lambda each: (each[0].version, int(each[0].network_address), each[0].prefixlen))
    for (network, name), (following, other) in itertools.pairwise(ordered):
        if (
            name != other
            and network.version == following.version
            and int(following.network_address) <= int(network.broadcast_address)
        ):
            yield make_finding(
                "PodCidrClash",
                f"node/{other}",
                f"The pod ranges of the nodes {name} ({network}) and {other} ({following}) overlap: packets to their "
                "pods "
                "go to one of them.",
                fix=f"delete node {other} and let it register again: {kubectl('', 'delete', 'node', other)}",
            )


def _overlapping_service_cidrs(
    facts: Facts, ranges: list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, str]]
) -> Iterator[Finding]:
    for service_range in networks_of(facts.cluster.service_cidrs):
        for network, name in ranges:
            if network.version == service_range.version and network.overlaps(service_range):
                yield make_finding(
                    "ServiceCidrClash",
                    f"node/{name}",
                    f"The Service CIDR {service_range} overlaps with the pod range {network} of node {name}: a cluster "
                    "IP may be a pod's address.",
                    fix="create a ServiceCIDR beside the pod ranges, and delete this one",
                )
                break
        for name, node in sorted(facts.cluster.nodes.items()):
            inside = [address for address in node.internal_ips if _in(address, service_range)]
            if inside:
                yield make_finding(
                    "ServiceCidrClash",
                    f"node/{name}",
                    f"The Service CIDR {service_range} contains the address {inside[0]} of node {name}: a cluster IP "
                    "may "
                    "be this node's address.",
                    fix="create a ServiceCIDR beside the nodes' network, and delete this one",
                )
                break


def check_pod_addresses(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield pods of the Service whose address another pod has."""
    clashes = facts.clashing_addresses
    if not clashes:
        return
    for pod in view.ready_pods:
        others = [other for ip in pod.status.pod_ips for other in clashes.get(ip.ip, ()) if other.key != pod.key]
        if others and not pod.spec.host_network:
            yield view.finding(
                "PodAddressClash",
                f"Pod {pod.metadata.name} has the address of pod {others[0].key}: connections reach one of them.",
                fix=kubectl(pod.metadata.namespace, "delete", "pod", pod.metadata.name),
                evidence=[f"address: {names_of(ip.ip for ip in pod.status.pod_ips)}"],
                severity=Severity.BROKEN if len(view.ready_pods) == 1 else Severity.DEGRADED,
            )
            return


def _pod_cidrs(node: Node) -> tuple[str, ...]:
    return node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())


def _in(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return ip.version == network.version and ip in network
