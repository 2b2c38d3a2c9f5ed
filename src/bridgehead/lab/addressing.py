"""Addresses of a lab by IP family: its local network, API servers, nodes, pods and Services.

Pure: no I/O, no clock, no randomness. IPv6 addresses mirror the IPv4 ones: node 3 is 10.0.0.203 and fd00:10::203, its
pods are in 10.244.3.0/24 and fd00:10:244:3::/64. All addresses are private (RFC 1918, RFC 4193) and never leave the
lab's namespaces.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bridgehead.objects.addresses import join_host_port

IpFamily = Literal["ipv4", "ipv6", "dual"]

MAX_NODES: Final = 50
MAX_API_SERVERS: Final = 5  # each has a member of etcd, of which more than five only make writes slower
API_PORT: Final = 6443
_FIRST_NODE: Final = 201


@dataclass(frozen=True)
class Ranges:
    """Addresses of one family. Ranges are in CIDR notation; `prefix_length` is that of the local network."""

    version: Literal[4, 6]
    fabric: str
    lab: str  # the lab itself: the first API server, and clients outside the cluster
    pods: str
    services: str
    kubernetes_service: str
    cluster_dns: str
    balancer: str  # addresses of Services of type LoadBalancer, on the local network

    @property
    def prefix_length(self) -> int:
        return ipaddress.ip_network(self.fabric).prefixlen

    def api_server(self, number: int) -> str:
        """Return the address of an API server; they count from 1."""
        return self._host(number)

    def node(self, number: int) -> str:
        """Return the address of a node; nodes count from 1."""
        return self._host(_FIRST_NODE - 1 + number)

    def _host(self, number: int) -> str:
        return f"{self.fabric.partition('/')[0].removesuffix('0')}{number}"

    def node_pods(self, number: int) -> str:
        """Return the range of a node's pods."""
        return f"10.244.{number}.0/24" if self.version == 4 else f"fd00:10:244:{number}::/64"


IPV4: Final = Ranges(
    version=4,
    fabric="10.0.0.0/24",
    lab="10.0.0.1",
    pods="10.244.0.0/16",
    services="10.96.0.0/12",
    kubernetes_service="10.96.0.1",
    cluster_dns="10.96.0.10",
    balancer="10.0.0.10-10.0.0.50",
)
IPV6: Final = Ranges(
    version=6,
    fabric="fd00:10::/64",
    lab="fd00:10::1",
    pods="fd00:10:244::/56",
    services="fd00:10:96::/112",
    kubernetes_service="fd00:10:96::1",
    cluster_dns="fd00:10:96::a",
    balancer="fd00:10::10-fd00:10::50",
)

# The first family is the primary one: Services that request no family get it.
RANGES: Final[dict[IpFamily, tuple[Ranges, ...]]] = {"ipv4": (IPV4,), "ipv6": (IPV6,), "dual": (IPV4, IPV6)}


def api_urls(ranges: Sequence[Ranges], servers: int) -> tuple[str, ...]:
    """Return the URLs of so many API servers inside the lab."""
    hosts = (ranges[0].api_server(number) for number in range(1, servers + 1))
    return tuple(f"https://{join_host_port(host, API_PORT)}" for host in hosts)
