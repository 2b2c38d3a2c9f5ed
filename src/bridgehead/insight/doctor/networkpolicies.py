"""Causes in NetworkPolicies: they forbid connections to a Service's pods, or to the DNS.

Policies have an effect by the cluster's network plug-in only: without a known one that enforces them, they are notices.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridgehead.controllers.endpoints.endpoint_pods import resolve_port
from bridgehead.insight.facts.system_object_names import DNS_SERVICE, SYSTEM
from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.core import Pod, ServicePort

from .networkpolicy_rules import Policy, PolicyPeer, PolicyPort, PolicyRule, isolating, peer_matches, port_matches
from .subjects import Facts, ServiceView, kubectl, make_finding, names_of


def _severity(facts: Facts) -> Severity:
    return Severity.BROKEN if facts.policies.enforcing else Severity.NOTICE


def _note(facts: Facts) -> str:
    """Return the evidence for or against an effect of policies."""
    if facts.policies.enforcing:
        return f"{facts.policies.enforcing} enforces NetworkPolicies; policies of kinds of its own were not looked at"
    return "no network plugin was recognized that enforces NetworkPolicies: without one they have no effect"


def check_ingress(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield policies that forbid every connection to the Service's pods."""
    if not facts.cluster.has_seen("networkpolicies") or not view.sees_pods:
        return
    policies = facts.policies
    own = policies.of(view.key.namespace)
    pods = view.ready_pods
    if not own or not pods:
        return
    for port in view.spec.ports:
        results = [result for pod in pods if (result := _why_forbidden(pod, port, own, facts)) is not None]
        if not results:
            continue
        cause, text, policy = results[0]
        severity = _severity(facts)
        if severity is Severity.BROKEN and (cause == "NetworkPolicyAllowsNobody" or len(results) < len(pods)):
            severity = Severity.DEGRADED
        yield view.finding(
            cause,
            f"{text} ({len(results)} of {len(pods)} pods).",
            fix=kubectl(policy.namespace, "edit", "networkpolicy", policy.name),
            evidence=[
                f"policies of the pods: {names_of(str(each) for each in isolating(own, pods[0]))}",
                _note(facts),
            ],
            severity=severity,
        )
        return


def _why_forbidden(
    pod: Pod, port: ServicePort, policies: Sequence[Policy], facts: Facts
) -> tuple[str, str, Policy] | None:
    number = resolve_port(pod, port)
    own = isolating(policies, pod)
    if not own or number is None or pod.spec.host_network:
        return None
    rules = [(policy, rule) for policy in own for rule in policy.ingress or ()]
    if not rules:
        text = f"The NetworkPolicy {own[0]} forbids every connection to pod {pod.metadata.name}"
        return "NetworkPolicyForbidsIngress", text, own[0]
    fitting = [(policy, rule) for policy, rule in rules if port_matches(rule, port.protocol, number, pod)]
    if not fitting:
        text = (
            f"The NetworkPolicy {rules[0][0]} allows {_ports_of(rules[0][1])}, but the Service leads to port "
            f"{number}/{port.protocol} of pod {pod.metadata.name}"
        )
        return "NetworkPolicyForbidsPort", text, rules[0][0]
    if not facts.is_whole or any(_may_match(policy, rule, facts) for policy, rule in fitting):
        return None
    text = f"The NetworkPolicy {fitting[0][0]} allows clients that do not exist: no pod has the labels of its peers"
    return "NetworkPolicyAllowsNobody", text, fitting[0][0]


def _may_match(policy: Policy, rule: PolicyRule, facts: Facts) -> bool:
    """Whether anybody is a peer of the rule: a pod, or an address outside of the cluster."""
    if not rule.peers or any(peer.ip_block is not None for peer in rule.peers):
        return True
    if not facts.cluster.has_seen("namespaces") and any(peer.namespace_selector is not None for peer in rule.peers):
        return True
    known = facts.policies.existing_peers
    if id(rule) not in known:  # every port of every pod asks, and all pods of the cluster may have to be looked at
        namespaces = facts.cluster.namespaces
        known[id(rule)] = any(
            peer_matches(peer, policy.namespace, pod, namespaces)
            for peer in rule.peers
            for pod in facts.cluster.pods.values()
        )
    return known[id(rule)]


def _ports_of(rule: PolicyRule) -> str:
    return f"only {names_of(map(_describe, rule.ports or ()))}"


def _describe(port: PolicyPort) -> str:
    number = "all ports" if port.port is None else str(port.port)
    return f"{number}-{port.end_port}/{port.protocol}" if port.end_port else f"{number}/{port.protocol}"


def check_dns_egress(facts: Facts) -> Iterator[Finding]:
    """Yield policies that keep pods from asking the cluster's DNS: one finding for each namespace."""
    cluster, policies = facts.cluster, facts.policies
    if (
        not facts.has_seen_all("networkpolicies", "pods", "services", "namespaces", namespace=SYSTEM)
        or DNS_SERVICE not in cluster.services
    ):
        return
    servers = [pod for pod in cluster.selected_pods(cluster.services[DNS_SERVICE]) if pod.is_ready]
    if not servers:
        return
    port = next((each for each in cluster.services[DNS_SERVICE].spec.ports if each.protocol == "UDP"), None)
    for namespace, own in sorted(policies.by_namespace.items()):
        if port is None or all(policy.egress is None for policy in own):
            continue
        seen: dict[frozenset[tuple[str, str]], bool] = {}
        for pod in cluster.pods_in(namespace):
            labels = frozenset(pod.metadata.labels.items())
            if pod.is_finished or pod.spec.host_network or labels in seen:
                continue
            isolated = isolating(own, pod, egress=True)
            seen[labels] = not isolated or _reaches(isolated, servers, port, facts)
            if not seen[labels]:
                yield make_finding(
                    "NetworkPolicyForbidsDns",
                    f"networkpolicy/{isolated[0]}",
                    f"The NetworkPolicy {isolated[0]} keeps pod {pod.metadata.name} from asking the cluster's DNS: no "
                    "name resolves there.",
                    fix=kubectl(namespace, "edit", "networkpolicy", isolated[0].name),
                    evidence=["allow egress to UDP and TCP port 53 of the pods k8s-app=kube-dns", _note(facts)],
                    severity=Severity.DEGRADED if facts.policies.enforcing else Severity.NOTICE,
                )
                break


def _reaches(isolated: Sequence[Policy], servers: Sequence[Pod], port: ServicePort, facts: Facts) -> bool:
    for policy in isolated:
        for rule in policy.egress or ():
            for server in servers:
                number = resolve_port(server, port)
                if number is None or not port_matches(rule, port.protocol, number, server):
                    continue
                if not rule.peers or any(_is_server(peer, server, policy, facts) for peer in rule.peers):
                    return True
    return False


def _is_server(peer: PolicyPeer, server: Pod, policy: Policy, facts: Facts) -> bool:
    if peer.ip_block is not None:
        return True  # the block may contain the cluster IP, which some plugins compare
    return peer_matches(peer, policy.namespace, server, facts.cluster.namespaces)
