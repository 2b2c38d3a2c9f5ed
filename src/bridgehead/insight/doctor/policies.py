"""Causes in a Service's policies: traffic policies, hints, source ranges, affinity.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from bridgehead.controllers.endpoints import zone_hints
from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.address_holders import assigned_addresses, external_addresses
from bridgehead.objects.core import Node

from .subjects import Facts, ServiceView, kubectl, names_of


def check_traffic_policies(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield policies `Local` that leave nodes without endpoints."""
    if view.is_external_name or view.is_headless or not view.ready_endpoints:
        return
    if not view.sees_slices or not facts.cluster.has_seen("nodes"):
        return
    with_endpoints = {endpoint.node_name for endpoint in view.endpoints if endpoint.conditions.is_usable}
    nodes = [node for node in facts.ready_nodes if _takes_pods(node)]
    without = sorted(node.metadata.name for node in nodes if node.metadata.name not in with_endpoints)
    if not without:
        return
    evidence = [
        "nodes with endpoints: "
        f"{names_of(sorted(filter(None, with_endpoints))) or 'none (the endpoints name no node)'}",
        f"nodes without: {names_of(without)}",
    ]
    if view.spec.internal_traffic_policy == "Local":
        yield view.finding(
            "InternalLocalWithoutEndpoints",
            f"internalTrafficPolicy is Local, and {len(without)} of {len(nodes)} nodes have no endpoint: connections "
            f"of pods on {names_of(without)} are dropped.",
            fix=view.patch('{"spec":{"internalTrafficPolicy":"Cluster"}}'),
            evidence=evidence,
            severity=Severity.BROKEN if len(without) == len(nodes) else Severity.DEGRADED,
        )
    if view.spec.external_traffic_policy != "Local":
        return
    holders = {
        node.metadata.name
        for address in external_addresses(view.service)
        if (node := facts.cluster.nodes_by_address.get(address)) is not None
    }
    if view.spec.type == "NodePort" or holders & set(without):
        yield view.finding(
            "ExternalLocalWithoutEndpoints",
            f"externalTrafficPolicy is Local, and {len(without)} of {len(nodes)} nodes have no endpoint: connections "
            f"from outside to {names_of(sorted(holders & set(without)) or without)} are dropped.",
            fix=view.patch('{"spec":{"externalTrafficPolicy":"Cluster"}}'),
            evidence=evidence,
            severity=Severity.DEGRADED,
        )


def _takes_pods(node: Node) -> bool:
    return not node.spec.unschedulable and all(taint.effect == "PreferNoSchedule" for taint in node.spec.taints)


def check_hints(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield hints that proxies cannot follow everywhere: traffic leaves a zone that somebody wanted it to stay in."""
    if not view.sees_slices or not facts.cluster.has_seen("nodes"):
        return
    wanted = view.spec.traffic_distribution is not None or zone_hints.is_wanted(view.service)
    ready = view.ready_endpoints
    hinted = [endpoint for endpoint in ready if endpoint.hinted_zones]
    zones = {node.zone for node in facts.ready_nodes if node.zone}
    without_zone = [node.metadata.name for node in facts.ready_nodes if not node.zone]
    if hinted and len(hinted) < len(ready):
        yield view.finding(
            "HintsIncomplete",
            f"Only {len(hinted)} of {len(ready)} ready endpoints have zone hints: proxies then ignore all of them.",
            fix=view.kubectl(
                "get", "endpointslices", "-l", f"kubernetes.io/service-name={view.key.name}", "-o", "yaml"
            ),
            severity=Severity.NOTICE,
        )
    elif hinted:
        covered = {zone for endpoint in hinted for zone in endpoint.hinted_zones}
        if empty := sorted(zones - covered):
            yield view.finding(
                "HintsLeaveZoneEmpty",
                f"No endpoint is hinted for zone {names_of(empty)}: connections from its nodes go to the other zones.",
                fix="run pods in each zone (topologySpreadConstraints), or remove spec.trafficDistribution",
                evidence=[f"hinted zones: {names_of(sorted(covered))}"],
                severity=Severity.DEGRADED if not covered & zones else Severity.NOTICE,
            )
    elif wanted and ready and view.spec.traffic_distribution != "PreferSameNode" and without_zone and zones:
        yield view.finding(
            "NodesWithoutZone",
            f"The Service prefers its client's zone, but the nodes {names_of(without_zone)} have no zone label.",
            fix=kubectl("", "label", "node", without_zone[0], "topology.kubernetes.io/zone=ZONE"),
            severity=Severity.NOTICE,
        )


def check_source_ranges(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield loadBalancerSourceRanges that allow no client."""
    ranges = view.spec.load_balancer_source_ranges
    if not ranges:
        return
    if view.spec.type != "LoadBalancer":
        yield view.finding(
            "SourceRangesIgnored",
            f"loadBalancerSourceRanges apply to Services of type LoadBalancer; this one is {view.spec.type}.",
            fix=view.patch('{"spec":{"loadBalancerSourceRanges":null}}'),
            severity=Severity.NOTICE,
        )
        return
    valid = [network for text in ranges if (network := _network(text)) is not None]
    versions = {ipaddress.ip_address(address).version for address in assigned_addresses(view.service)}
    missing = versions - {network.version for network in valid}
    if not versions or not missing:
        return
    yield view.finding(
        "SourceRangesAllowNobody",
        f"No client may use the load-balancer address: none of loadBalancerSourceRanges is an IPv{min(missing)} range.",
        fix=view.patch('{"spec":{"loadBalancerSourceRanges":["CIDR"]}}'),
        evidence=[
            f"ranges: {names_of(ranges)}",
            f"addresses: {names_of(assigned_addresses(view.service))}",
            *(["kube-proxy ignores ranges that are all of the other family"] if not facts.cluster.progress else []),
        ],
        severity=Severity.BROKEN if missing == versions and facts.cluster.progress else Severity.DEGRADED,
    )


def check_affinity(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield session affinity where no proxy applies it."""
    if view.spec.session_affinity == "ClientIP" and view.is_headless and not view.is_external_name:
        yield view.finding(
            "AffinityWithoutProxy",
            "sessionAffinity has no effect for a headless Service: clients choose a pod by DNS.",
            fix=view.patch('{"spec":{"sessionAffinity":"None"}}'),
            severity=Severity.NOTICE,
        )


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None


def networks_of(texts: Sequence[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return the valid CIDRs of a list."""
    return [network for text in texts if (network := _network(text)) is not None]
