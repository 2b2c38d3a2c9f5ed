"""Causes in the resolution of names: the cluster's DNS, its configuration, and the settings of pods.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "DNS for Services and Pods"; CoreDNS,
plugins forward and loop.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from bridgehead.insight.facts.system_object_names import DNS_SERVICE, SYSTEM
from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.address_holders import cluster_addresses
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey

from .subjects import Facts, kubectl, make_finding, names_of

_COREFILE_KEY = ObjectKey(SYSTEM, "coredns")
_MOST_SEARCHES, _MOST_SEARCH_CHARACTERS = 32, 2048  # Kubernetes' own limits since v1.28
_OWN_SEARCHES = 3  # NAMESPACE.svc.DOMAIN, svc.DOMAIN, DOMAIN
_MOST_SERVERS = 3
_HIGH_NDOTS = 5  # the default for pods

_SUBJECT = f"service/{DNS_SERVICE}"


def check_dns(facts: Facts) -> Iterator[Finding]:
    """Yield the problems of the cluster's DNS as a whole."""
    cluster = facts.cluster
    yield from _forwarding_loop(facts)
    if not facts.has_seen_all("configmaps", "services", namespace=SYSTEM):
        return
    config = cluster.config_maps.get(_COREFILE_KEY)
    if config is None:
        return  # another DNS, about which nothing is known
    if DNS_SERVICE not in cluster.services:
        yield make_finding(
            "DnsServiceMissing",
            _SUBJECT,
            f"There is no Service {DNS_SERVICE}: pods ask its cluster IP for every name.",
            fix="create the Service again, with the cluster IP in the kubelets' clusterDNS",
            evidence=[f"ConfigMap {_COREFILE_KEY}: there"],
        )
    lines = _directives(config.data.get("Corefile", ""))
    names = {tokens[0] for tokens in lines}
    if "Corefile" in config.data and not names & {"kubernetes", "import"}:
        yield make_finding(
            "DnsZoneMissing",
            _SUBJECT,
            f"The Corefile has no plugin kubernetes: no name of {cluster.domain} is resolved.",
            fix=kubectl(SYSTEM, "edit", "configmap", "coredns"),
            evidence=[f"directives: {names_of(sorted(names))}"],
        )


def _forwarding_loop(facts: Facts) -> Iterator[Finding]:
    cluster = facts.cluster
    own = set(cluster_addresses(cluster.services[DNS_SERVICE])) if DNS_SERVICE in cluster.services else set()
    config = cluster.config_maps.get(_COREFILE_KEY)
    fix = kubectl(SYSTEM, "edit", "configmap", "coredns")
    for tokens in _directives(config.data.get("Corefile", "")) if config is not None else ():
        if tokens[0] != "forward":
            continue
        for server in tokens[2:]:
            address = _address(server)
            # Another port of the pod is that of a second program.
            is_own_port = re.search(r"[]0-9a-f]:[0-9]+$", server) is None or server.endswith(":53")
            if address and is_own_port and (address in own or ipaddress.ip_address(address).is_loopback):
                what = "its own Service" if address in own else "the DNS pod itself"
                yield make_finding(
                    "DnsForwardingLoop",
                    _SUBJECT,
                    f"The Corefile forwards queries to {server}, which is {what}: they go round in a circle.",
                    fix=fix,
                    evidence=[" ".join(tokens)],
                )
                return
    for pod in cluster.pods_in(SYSTEM):
        for status in pod.status.container_statuses if pod.metadata.labels.get("k8s-app") == "kube-dns" else ():
            ended = status.last_state.terminated or status.state.terminated
            if ended is not None and "plugin/loop" in ended.message:
                line = next(each for each in ended.message.splitlines() if "plugin/loop" in each)
                yield make_finding(
                    "DnsForwardingLoop",
                    _SUBJECT,
                    "The DNS forwards queries to itself, probably by a resolv.conf of the node that names 127.0.0.53.",
                    fix="let the kubelet use another file: resolvConf: /run/systemd/resolve/resolv.conf",
                    evidence=[line],
                )
                return


def check_pod_settings(facts: Facts) -> Iterator[Finding]:
    """Yield pods whose settings keep them from resolving Services' names, one finding for each cause and namespace."""
    cluster = facts.cluster
    if not cluster.has_seen("pods"):
        return
    own = set(cluster_addresses(cluster.services[DNS_SERVICE])) if DNS_SERVICE in cluster.services else set()
    skipping: dict[str, list[Pod]] = {}
    cut: dict[str, list[Pod]] = {}
    high: dict[str, list[Pod]] = {}
    for pod in cluster.pods.values():
        namespace = pod.metadata.namespace
        if namespace == SYSTEM or pod.is_finished or pod.is_terminating:
            continue
        if _skips_dns(pod, own):
            skipping.setdefault(namespace, []).append(pod)
        if _is_cut(pod, facts):
            cut.setdefault(namespace, []).append(pod)
        if _ndots(pod) > _HIGH_NDOTS:
            high.setdefault(namespace, []).append(pod)
    for namespace, pods in sorted(cut.items()):
        pod = pods[0]
        events = facts.events_of("Pod", pod.key, "DNSConfigForming", uid=pod.metadata.uid)
        config = pod.spec.dns_config
        yield make_finding(
            "SearchListCut",
            f"pod/{pod.key}",
            f"The list of search domains or name servers of pod {pod.metadata.name} is longer than the kubelet "
            "accepts, "
            "which leaves out the end: names that need it do not resolve.",
            fix="shorten dnsConfig.searches in the pod template, or the node's resolv.conf",
            evidence=[
                *(event.message for event in events[:1]),
                f"dnsConfig: {len(config.searches) if config else 0} searches, "
                f"{len(config.nameservers) if config else 0} nameservers",
                *([f"{len(pods) - 1} more pods in namespace {namespace}"] if len(pods) > 1 else []),
            ],
            severity=Severity.DEGRADED,
        )
    for namespace, pods in sorted(skipping.items()):
        pod = pods[0]
        yield make_finding(
            "PodSkipsClusterDns",
            f"pod/{pod.key}",
            f"Pod {pod.metadata.name} does not ask the cluster's DNS ({_why_skipped(pod)}): names of Services do not "
            "resolve there.",
            fix="set dnsPolicy: ClusterFirstWithHostNet in the pod template"
            if pod.spec.host_network
            else "set dnsPolicy: ClusterFirst in the pod template",
            evidence=[f"{len(pods)} such pods in namespace {namespace}"],
            severity=Severity.NOTICE,
        )
    for namespace, pods in sorted(high.items()):
        yield make_finding(
            "NdotsHigh",
            f"pod/{pods[0].key}",
            f"Pod {pods[0].metadata.name} has ndots {_ndots(pods[0])}: nearly every external name is first asked with "
            "each search domain.",
            fix="set the option ndots to 5 or less in dnsConfig.options, or end names with a dot",
            evidence=[f"{len(pods)} such pods in namespace {namespace}"],
            severity=Severity.NOTICE,
        )


def _skips_dns(pod: Pod, own: set[str]) -> bool:
    policy, config = pod.spec.dns_policy, pod.spec.dns_config
    if policy == "None":
        return bool(own) and config is not None and not own & set(config.nameservers)
    return policy == "Default" or (policy == "ClusterFirst" and pod.spec.host_network)


def _why_skipped(pod: Pod) -> str:
    host = " on the host network" if pod.spec.host_network else ""
    return f"dnsPolicy {pod.spec.dns_policy}{host}"


def _is_cut(pod: Pod, facts: Facts) -> bool:
    if facts.events_of("Pod", pod.key, "DNSConfigForming", uid=pod.metadata.uid):
        return True
    config = pod.spec.dns_config
    if config is None:
        return False
    inherited = _OWN_SEARCHES if pod.spec.dns_policy in ("ClusterFirst", "ClusterFirstWithHostNet") else 0
    servers = len(config.nameservers) + (1 if inherited else 0)
    length = sum(map(len, config.searches)) + len(config.searches) - 1
    return (
        len(config.searches) + inherited > _MOST_SEARCHES or length > _MOST_SEARCH_CHARACTERS or servers > _MOST_SERVERS
    )


def _ndots(pod: Pod) -> int:
    options = pod.spec.dns_config.options if pod.spec.dns_config is not None else ()
    value = next((option.value for option in options if option.name == "ndots"), None)
    return int(value) if value is not None and value.isascii() and value.isdigit() and len(value) < 5 else 0


def _directives(text: str) -> list[list[str]]:
    """Return the tokens of each line of a Corefile, without comments and braces."""
    lines = (line.partition("#")[0].split() for line in text[:100_000].splitlines())
    return [tokens for line in lines if (tokens := [token for token in line if token not in ("{", "}")])]


def _address(server: str) -> str:
    """Return the address of `10.96.0.10`, `10.96.0.10:53`, `dns://[::1]:53`; "" for a file or a name."""
    text = server.rpartition("://")[2].partition("%")[0]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
