"""The diagnosis: all causes that the facts contain, the first one first, with one verdict for each Service.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from bridgehead.insight.facts.system_object_names import DNS_SERVICE
from bridgehead.insight.findings import Finding, Severity, Unseen

from . import (
    addresses,
    certificates,
    connections,
    dns_answers,
    external_names,
    headless,
    ingresses,
    load_balancers,
    names,
    networkpolicies,
    node_networks,
    node_rules,
    nodes,
    packet_filters,
    pods,
    policies,
    ports,
    proxies,
    selectors,
    service_lookup,
    slices,
)
from .catalogue import position_of
from .subjects import Facts, ServiceView

ServiceCheck = Callable[[ServiceView, Facts], Iterator[Finding]]
ClusterCheck = Callable[[Facts], Iterator[Finding]]

SERVICE_CHECKS: tuple[ServiceCheck, ...] = (
    service_lookup.check_asked_port,
    service_lookup.check_deletion,
    external_names.check_external_name,
    selectors.check_selector,
    selectors.check_without_selector,
    pods.check_pods,
    ports.check_ports,
    slices.check_slices,
    policies.check_traffic_policies,
    policies.check_hints,
    policies.check_source_ranges,
    policies.check_affinity,
    addresses.check_cluster_ips,
    addresses.check_external_ips,
    addresses.check_reserved_events,
    addresses.check_proxy_label,
    load_balancers.check_load_balancer,
    headless.check_headless_ports,
    proxies.check_programming,
    networkpolicies.check_ingress,
    nodes.check_pod_addresses,
    node_rules.check_rules,
    node_rules.check_proxy_listeners,
    node_rules.check_ipvs,
    packet_filters.check_service_filters,
    connections.check_connections,
    node_networks.check_addresses,
    node_networks.check_node_ports,
)
CLUSTER_CHECKS: tuple[ClusterCheck, ...] = (
    node_rules.check_node_rules,
    packet_filters.check_forwarding_filters,
    node_networks.check_node_networks,
    dns_answers.check_dns_answers,
    dns_answers.check_pod_resolvers,
    names.check_dns,
    names.check_pod_settings,
    proxies.check_proxies,
    nodes.check_nodes,
    networkpolicies.check_dns_egress,
    ingresses.check_ingresses,
    headless.check_stateful_sets,
    certificates.check_certificates,
)

# Causes that a reading may see for a moment, because its requests are not one: a second reading confirms them.
PASSING_CAUSES = frozenset(
    (
        "EndpointSlicesBehind",
        "EndpointsNotMirrored",
        "ProxyBehind",
        "NoSelectorNoEndpoints",
        "RulesMissing",
        "RulesForeign",
        "RulesAltered",
        "NodeWithoutRules",
        "TwoProxies",
        "RulesOfOtherMode",
        "ProxyListenerMissing",
        "IpvsAddressMissing",
        "ConnectionsStale",
        "PodRouteMissing",
    )
)
_ESSENTIAL = frozenset(("services", "endpointslices", "endpoints", "pods", "nodes"))
# Causes for which the DNS has no endpoints, and then no name resolves.
_NO_ENDPOINTS = frozenset(("selectors", "pods", "slices"))


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """`findings`: all, the first cause first. `services`: `namespace/name` of each examined Service, with the cause of
    its verdict; "" for one without. `unknown`: Services that were asked for and could not be read. `unseen`: what could
    not be looked at.
    """

    findings: tuple[Finding, ...]
    services: dict[str, str]
    unknown: tuple[str, ...] = ()
    unseen: tuple[Unseen, ...] = ()

    @property
    def healthy(self) -> int:
        """The number of Services without a verdict."""
        return sum(not cause for cause in self.services.values())

    @property
    def is_partial(self) -> bool:
        """Whether a Service without a verdict may be broken all the same: too little could be read."""
        return any(unseen.what in _ESSENTIAL for unseen in self.unseen)

    @property
    def is_broken(self) -> bool:
        return any(finding.severity is Severity.BROKEN for finding in self.findings)

    @property
    def verdicts(self) -> tuple[Finding, ...]:
        """The findings that somebody has to do something about."""
        return tuple(finding for finding in self.findings if finding.severity is not Severity.NOTICE)

    def of(self, subject: str) -> Sequence[Finding]:
        """Return the findings about one subject, `service/default/web`."""
        return [finding for finding in self.findings if finding.subject == subject]


def diagnose(facts: Facts) -> Diagnosis:
    """Search all causes."""
    found: list[Finding] = []
    asked = {f"service/{target.key}" for target in facts.targets}
    for target in facts.targets:
        found += service_lookup.check_target(target, facts)
    examined: list[str] = []
    for key, view in facts.views.items():
        own = list(_of_service(view, facts))
        if asked and view.subject not in asked and all(each.severity is Severity.NOTICE for each in own):
            continue  # the DNS, about which nobody asked
        found += own
        examined.append(str(key))
    for check in CLUSTER_CHECKS:
        found += check(facts)
    findings = tuple(_unique(sorted(found, key=lambda finding: (*_order(finding), finding.subject not in asked))))
    unseen = tuple(dict.fromkeys((*facts.cluster.unseen, *facts.unseen)))
    services = _verdicts(findings, examined)
    unknown = tuple(str(target.key) for target in facts.targets if str(target.key) not in services)
    return Diagnosis(findings=findings, services=services, unknown=unknown, unseen=unseen)


def confirmed(first: Diagnosis, second: Diagnosis) -> Diagnosis:
    """Return the second diagnosis without the passing causes that the first one does not have."""
    seen = {(finding.subject, finding.cause) for finding in first.findings}
    kept = tuple(
        finding
        for finding in second.findings
        if finding.cause not in PASSING_CAUSES or (finding.subject, finding.cause) in seen
    )
    return msgspec.structs.replace(second, findings=kept, services=_verdicts(kept, second.services))


def _verdicts(findings: Iterable[Finding], examined: Iterable[str]) -> dict[str, str]:
    """Return the first cause of each Service that was examined or that has a finding; "" for a healthy one."""
    services = dict.fromkeys(examined, "")
    for finding in findings:
        kind, _, name = finding.subject.partition("/")
        if kind == "service" and finding.severity is not Severity.NOTICE and not services.get(name):
            services[name] = finding.cause
    return services


def needs_confirmation(diagnosis: Diagnosis) -> bool:
    return any(finding.cause in PASSING_CAUSES for finding in diagnosis.findings)


def _of_service(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    findings = [finding for check in SERVICE_CHECKS for finding in check(view, facts)]
    if view.key == DNS_SERVICE:
        findings = list(_of_dns(findings))
    yield from findings


def _of_dns(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Put the consequence into the first cause for which the DNS does not answer."""
    from .catalogue import family_of

    for finding in findings:
        if finding.severity is Severity.BROKEN and family_of(finding.cause) in _NO_ENDPOINTS:
            yield msgspec.structs.replace(
                finding,
                cause="DnsWithoutEndpoints",
                text=f"The cluster's DNS has no endpoint, so that no name resolves. {finding.text}",
                evidence=(f"cause: {finding.cause}", *finding.evidence),
            )
        else:
            yield finding


def _order(finding: Finding) -> tuple[int, int, str]:
    return _SEVERITIES[finding.severity], position_of(finding.cause), finding.subject


_SEVERITIES: Mapping[Severity, int] = {severity: index for index, severity in enumerate(Severity)}


def _unique(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield each cause of a subject once."""
    seen: set[tuple[str, str]] = set()
    for finding in findings:
        key = (finding.subject, finding.cause)
        if key not in seen:
            seen.add(key)
            yield finding
