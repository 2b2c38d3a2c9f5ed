"""The nodes' kernels beside the rules that they should have.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from bridgehead.insight.expectations import Expectations, expect_node, service_of
from bridgehead.insight.facts.cluster_state import OTHER_NAMESPACES, ClusterState
from bridgehead.insight.facts.network_state import RULES, Interface, Listening, NetworkState, Route, Section
from bridgehead.insight.facts.system_object_names import SYSTEM, is_proxy_pod
from bridgehead.insight.rulesets.comparison import Difference, compare
from bridgehead.insight.rulesets.entries import NodeRules
from bridgehead.insight.rulesets.reading import read_rules

from .filter_rules import Filters

T = TypeVar("T")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# The kernel's numbers of its own routing tables; rules of `ip rule` choose others, which are not looked at.
_TABLES = ("local", "main", "default")


@dataclass(frozen=True)
class RoutingTable:
    """The routes of a node, by prefix length for lookups."""

    by_prefix: Mapping[tuple[int, int], Mapping[int, Sequence[Route]]]

    @classmethod
    def of(cls, routes: Iterable[Route]) -> RoutingTable:
        found: dict[tuple[int, int], dict[int, list[Route]]] = {}
        for route in routes:
            network = destination_of(route)
            if route.table in _TABLES and network is not None and route.kind not in ("broadcast", "multicast"):
                prefix = found.setdefault((network.version, network.prefixlen), {})
                prefix.setdefault(int(network.network_address), []).append(route)
        ordered = dict(sorted(found.items(), key=lambda each: -each[0][1]))
        return cls(ordered)

    def lookup(self, address: Address) -> Route | None:
        """Return the most specific route to an address; of several, one in table local or that of least metric."""
        bits = address.max_prefixlen
        for (version, length), networks in self.by_prefix.items():
            if version == address.version:
                routes = networks.get(int(address) >> (bits - length) << (bits - length))
                if routes:
                    return min(routes, key=lambda route: (_TABLES.index(route.table), route.metric))
        return None


class NodeKernel:
    """One node whose network namespace was read, wholly or in part."""

    def __init__(self, name: str, state: NetworkState, cluster: ClusterState) -> None:
        self.name = name
        self.state = state
        self.subject = f"node/{name}"
        self._cluster = cluster
        self._memory: dict[Hashable, Any] = {}

    def memo(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, which is called once for each key."""
        if key not in self._memory:
            self._memory[key] = compute()
        found: T = self._memory[key]
        return found

    @cached_property
    def filters(self) -> Filters:
        """The packet filters of other programs than service proxies."""
        return Filters(self.state)

    def has_seen(self, *sections: Section) -> bool:
        return all(section not in self.state.unseen for section in sections)

    @cached_property
    def expected(self) -> Expectations:
        return expect_node(self._cluster, self.name, self.state)

    @cached_property
    def rules(self) -> NodeRules:
        table = self.expected.table
        return read_rules(self.state, table, table.cluster_ips())

    @cached_property
    def sees_rules(self) -> bool:
        """Whether all rules that the proxy's mode needs were read."""
        needed = {
            "nftables": {Section.NFTABLES},
            "userspace": {Section.NFTABLES, Section.LISTENERS},
            "iptables": {Section.IPTABLES},
            "ipvs": {Section.IPTABLES, Section.IP_SETS, Section.VIRTUAL_SERVERS},
        }.get(self.expected.mode, RULES)
        return not needed & self.state.unseen.keys() and not self.rules.problems

    @cached_property
    def differences(self) -> Sequence[Difference]:
        """The differences between the kernel's rules and the expected ones; () if either is not known."""
        cluster = self._cluster
        kinds = ("services", "nodes", "configmaps", "leases", "pods")
        is_known = all(cluster.has_seen(kind, SYSTEM) for kind in kinds)
        is_known &= cluster.has_seen("services", OTHER_NAMESPACES)
        if not is_known or not self.has_proxy or not self.sees_rules:
            return ()
        return compare(self.expected, self.rules)

    @cached_property
    def differences_by_service(self) -> Mapping[str, Sequence[Difference]]:
        """The differences that concern one Service, by `namespace/name`."""
        found: dict[str, list[Difference]] = {}
        for difference in self.differences:
            if difference.service:
                found.setdefault(str(service_of(difference.service)), []).append(difference)
        return found

    @cached_property
    def has_proxy(self) -> bool:
        """Whether the node's Services are programmed by this project's proxy or by kube-proxy."""
        return self.name in self._cluster.progress or any(
            pod.spec.node_name == self.name and is_proxy_pod(pod) for pod in self._cluster.pods_in(SYSTEM)
        )

    @cached_property
    def routes(self) -> RoutingTable:
        return RoutingTable.of(self.state.routes)

    @cached_property
    def interfaces(self) -> Mapping[str, Interface]:
        return {interface.name: interface for interface in self.state.interfaces}

    @cached_property
    def addresses(self) -> Mapping[str, str]:
        """The node's own addresses, with the interface of each."""
        return {
            address.partition("/")[0]: interface.name
            for interface in self.state.interfaces
            for address in interface.addresses
        }

    @cached_property
    def listeners(self) -> Mapping[tuple[str, int], Sequence[Listening]]:
        """The listeners of the node's own programs, by protocol and port."""
        found: dict[tuple[str, int], list[Listening]] = {}
        for listening in self.state.listeners:
            found.setdefault((listening.protocol, listening.port), []).append(listening)
        return found

    def sysctl(self, name: str) -> int | None:
        """Return the value of a sysctl; None for one that was not read or is no number."""
        text = self.state.sysctls.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def read_kernels(cluster: ClusterState, networks: Mapping[str, NetworkState]) -> dict[str, NodeKernel]:
    return {name: NodeKernel(name, networks[name], cluster) for name in sorted(networks) if name in cluster.nodes}


def destination_of(route: Route) -> Network | None:
    """Return the destination of a route; None if it is no network."""
    if route.destination == "default":
        return ipaddress.ip_network("::/0" if route.family == 6 else "0.0.0.0/0")
    try:
        return ipaddress.ip_network(route.destination, strict=False)
    except ValueError:
        return None


def address_of(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("/")[0].partition("%")[0])
    except ValueError:
        return None
