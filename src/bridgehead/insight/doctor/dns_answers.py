"""Causes for which the cluster's DNS does not answer a query that was sent for this diagnosis.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.insight.facts.system_object_names import DNS_SERVICE, SYSTEM
from bridgehead.insight.findings import Finding, Severity

from .subjects import DnsAnswer, Facts, kubectl, make_finding, names_of

_SUBJECT = f"service/{DNS_SERVICE}"
_FAILING = ("SERVFAIL", "REFUSED", "FORMERR", "NOTIMP")


def check_dns_answers(facts: Facts) -> Iterator[Finding]:
    """Yield the clients whose query was not answered, or was answered by an error."""
    answers = facts.dns_answers
    lost = [each for each in answers if not each.result]
    failing = [each for each in answers if each.result in _FAILING]
    if lost:
        yield make_finding(
            "DnsNoAnswer",
            _SUBJECT,
            f"The cluster's DNS ({lost[0].server}) does not answer a query from "
            f"{names_of(each.client for each in lost)}{'' if len(lost) == len(answers) else ', but from others'}.",
            fix=kubectl(SYSTEM, "get", "pods", "-l", "k8s-app=kube-dns", "-o", "wide"),
            evidence=[_text(each) for each in answers],
            severity=Severity.BROKEN if len(lost) == len(answers) else Severity.DEGRADED,
        )
    if failing:
        yield make_finding(
            "DnsAnswersError",
            _SUBJECT,
            f"The cluster's DNS answers {failing[0].result} to a query for {failing[0].name}.",
            fix=kubectl(SYSTEM, "logs", "-l", "k8s-app=kube-dns"),
            evidence=[_text(each) for each in answers],
        )


def check_pod_resolvers(facts: Facts) -> Iterator[Finding]:
    """Yield pods whose resolv.conf names other servers than the cluster's DNS, although they should ask it."""
    own = facts.dns_addresses
    for resolver in facts.resolvers if own else ():
        pod = facts.cluster.pods.get(resolver.pod)
        if pod is None or pod.spec.dns_policy != "ClusterFirst" or pod.spec.host_network or not resolver.servers:
            continue
        if set(resolver.servers) & own or any(map(_is_node_local, resolver.servers)):
            continue
        yield make_finding(
            "PodAsksOtherDns",
            f"pod/{pod.key}",
            f"resolv.conf of pod {pod.metadata.name} names {names_of(resolver.servers)}, and not the cluster's DNS "
            f"({names_of(sorted(own))}): names of Services do not resolve there.",
            fix=f"set clusterDNS to {names_of(sorted(own))} in the kubelet's configuration of node "
            f"{pod.spec.node_name}, and create the pod again",
            evidence=[f"nameserver {each}" for each in resolver.servers],
            severity=Severity.DEGRADED,
        )


def _is_node_local(address: str) -> bool:
    """Whether an address is one that node-local DNS servers use."""
    return address.startswith(("169.254.", "fe80:", "fd00:169:254:"))


def _text(answer: DnsAnswer) -> str:
    result = answer.result or f"no answer within {answer.seconds:g} s"
    return f"sent from {answer.client}: UDP query for {answer.name} A to {answer.server}; {result}"
