"""NetworkPolicies: parsed, and evaluated for connections to a port of a pod.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Network Policies", API reference v1.36.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from bridgehead.insight.facts.cluster_state import Json
from bridgehead.objects.core import Namespace, Pod
from bridgehead.objects.meta import LabelSelector, Object, Part
from bridgehead.objects.selectors import Selector, compile_selector


class PolicyPort(Part, frozen=True, kw_only=True):
    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class IPBlock(Part, frozen=True, kw_only=True):
    cidr: str
    except_: tuple[str, ...] = msgspec.field(default=(), name="except")


class PolicyPeer(Part, frozen=True, kw_only=True):
    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


class PolicyRule(Part, frozen=True, kw_only=True):
    """A rule of either direction. No ports: all; no peers: all."""

    ports: tuple[PolicyPort, ...] | None = None
    from_: tuple[PolicyPeer, ...] | None = msgspec.field(default=None, name="from")
    to: tuple[PolicyPeer, ...] | None = None

    @property
    def peers(self) -> tuple[PolicyPeer, ...]:
        return self.from_ or self.to or ()


class PolicySpec(Part, frozen=True, kw_only=True):
    pod_selector: LabelSelector = LabelSelector()
    ingress: tuple[PolicyRule, ...] | None = None
    egress: tuple[PolicyRule, ...] | None = None
    policy_types: tuple[str, ...] | None = None


class _StoredPolicy(Object, frozen=True, kw_only=True):
    spec: PolicySpec = PolicySpec()


class Policy(NamedTuple):
    """A NetworkPolicy. `ingress`, `egress`: its rules; None if it does not isolate pods in that direction."""

    namespace: str
    name: str
    selector: Selector
    ingress: tuple[PolicyRule, ...] | None
    egress: tuple[PolicyRule, ...] | None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def parse_policies(items: Iterable[Json]) -> Iterator[Policy]:
    """Yield the valid policies; others are left out."""
    for item in items:
        try:
            stored = msgspec.convert(item, _StoredPolicy, strict=False)
            selector = compile_selector(stored.spec.pod_selector)
        except (msgspec.ValidationError, ValueError, TypeError):
            continue
        spec = stored.spec
        types = spec.policy_types or ("Ingress", *(("Egress",) if spec.egress is not None else ()))
        yield Policy(
            stored.metadata.namespace,
            stored.metadata.name,
            selector,
            (spec.ingress or ()) if "Ingress" in types else None,
            (spec.egress or ()) if "Egress" in types else None,
        )


_ENFORCING = (
    "calico",
    "cilium",
    "antrea",
    "kube-router",
    "weave",
    "ovn",
    "canal",
    "azure-npm",
    "kindnet",
    "network-polic",  # controllers of their own; aws-node alone enforces none by default
)


class PolicyIndex:
    """The policies of a cluster by namespace. `enforcing`: of `plugins`, one that enforces them; "" without one."""

    def __init__(self, items: Iterable[Json], plugins: Iterable[str]) -> None:
        self.by_namespace: dict[str, list[Policy]] = {}
        for policy in parse_policies(items):
            self.by_namespace.setdefault(policy.namespace, []).append(policy)
        self.existing_peers: dict[int, bool] = {}  # whether anybody is a peer, by the identity of the rule
        self.enforcing = next((name for name in plugins if any(part in name for part in _ENFORCING)), "")

    def of(self, namespace: str) -> Sequence[Policy]:
        return self.by_namespace.get(namespace, ())


def port_matches(rule: PolicyRule, protocol: str, number: int, pod: Pod | None) -> bool:
    """Whether a rule is for a port of the pod that takes the connection."""
    if not rule.ports:
        return True
    for port in rule.ports:
        if port.protocol != protocol:
            continue
        if port.port is None:
            return True
        if isinstance(port.port, int):
            if port.port <= number <= (port.end_port or port.port):
                return True
        elif pod is not None and number in _named_ports(pod, port.port, protocol):
            return True
    return False


def _named_ports(pod: Pod, name: str, protocol: str) -> set[int]:
    return {
        port.container_port
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for port in container.ports
        if port.name == name and port.protocol == protocol
    }


def peer_matches(peer: PolicyPeer, policy_namespace: str, pod: Pod, namespaces: Mapping[str, Namespace]) -> bool:
    """Whether a peer of a rule is this pod. A malformed peer is none."""
    try:
        if peer.ip_block is not None:
            return any(_in_block(peer.ip_block, address.ip) for address in pod.status.pod_ips)
        if peer.namespace_selector is None:
            if pod.metadata.namespace != policy_namespace:
                return False
        elif not compile_selector(peer.namespace_selector).matches(_namespace_labels(pod, namespaces)):
            return False
        return peer.pod_selector is None or compile_selector(peer.pod_selector).matches(pod.metadata.labels)
    except ValueError:
        return False


def _namespace_labels(pod: Pod, namespaces: Mapping[str, Namespace]) -> Mapping[str, str]:
    name = pod.metadata.namespace
    namespace = namespaces.get(name)
    return {"kubernetes.io/metadata.name": name, **(namespace.metadata.labels if namespace is not None else {})}


def _in_block(block: IPBlock, address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return _in(ip, block.cidr) and not any(_in(ip, cidr) for cidr in block.except_)


def _in(ip: ipaddress.IPv4Address | ipaddress.IPv6Address, cidr: str) -> bool:
    network = ipaddress.ip_network(cidr, strict=False)
    return ip.version == network.version and ip in network


def isolating(policies: Sequence[Policy], pod: Pod, *, egress: bool = False) -> list[Policy]:
    """Return the policies that isolate a pod in one direction."""
    return [
        policy
        for policy in policies
        if policy.namespace == pod.metadata.namespace
        and (policy.egress if egress else policy.ingress) is not None
        and policy.selector.matches(pod.metadata.labels)
    ]
