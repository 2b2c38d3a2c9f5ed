"""Addresses of a lab by IP family: its local network, API servers, nodes, pods and Services.

Pure: no I/O, no clock, no randomness. IPv6 addresses mirror the IPv4 ones: node 3 is 10.0.0.203 and fd00:10::203, its
pods are in 10.244.3.0/24 and fd00:10:244:3::/64. No address leaves the lab's namespaces.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from bridgehead.objects.addresses import join_host_port

IpFamily = Literal["ipv4", "ipv6", "dual"]

MAX_NODES: Final = 50
MAX_API_SERVERS: Final = 5  # each has a member of etcd, of which more than five only make writes slower
API_PORT: Final = 6443
_FIRST_NODE: Final = 201
_POD_BITS: Final = {4: 8, 6: 64}  # of a node's range
_CLUSTER_DNS: Final = 10


class Ranges(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of one family. Ranges are in CIDR notation: `fabric` is the local network, `pods` those of all nodes.

    The ranges must have room for the addresses (`range_choice` checks that).
    """

    version: Literal[4, 6]
    fabric: str
    pods: str
    services: str

    @property
    def prefix_length(self) -> int:
        """Prefix length of the local network."""
        return int(_network(self.fabric).prefixlen)

    @property
    def lab(self) -> str:
        """The lab itself: the first API server, and clients outside the cluster."""
        return self.api_server(1)

    @property
    def kubernetes_service(self) -> str:
        return str(_network(self.services)[1])

    @property
    def cluster_dns(self) -> str:
        return str(_network(self.services)[_CLUSTER_DNS])

    @property
    def balancer(self) -> str:
        """Addresses of Services of type LoadBalancer, on the local network."""
        return f"{self._host(10)}-{self._host(50)}"

    def api_server(self, number: int) -> str:
        """Return the address of an API server; they count from 1."""
        return self._host(number)

    def node(self, number: int) -> str:
        """Return the address of a node; nodes count from 1."""
        return self._host(_FIRST_NODE - 1 + number)

    def _host(self, number: int) -> str:
        return str(_network(self.fabric)[self._readable(number)])

    def node_pods(self, number: int) -> str:
        """Return the range of a node's pods."""
        network, bits = _network(self.pods), _POD_BITS[self.version]
        first = network.network_address + (self._readable(number) << bits)
        return f"{first}/{network.max_prefixlen - bits}"

    def _readable(self, number: int) -> int:
        """Return the number whose text in an address of this family has the digits of `number`."""
        return number if self.version == 4 else int(str(number), 16)


@functools.lru_cache(maxsize=64)
def _network(text: str) -> Any:
    return ipaddress.ip_network(text)


IPV4: Final = Ranges(version=4, fabric="10.0.0.0/24", pods="10.244.0.0/16", services="10.96.0.0/12")
IPV6: Final = Ranges(version=6, fabric="fd00:10::/64", pods="fd00:10:244::/56", services="fd00:10:96::/112")

# The first family is the primary one: Services that request no family get it.
RANGES: Final[dict[IpFamily, tuple[Ranges, ...]]] = {"ipv4": (IPV4,), "ipv6": (IPV6,), "dual": (IPV4, IPV6)}


def api_urls(ranges: Sequence[Ranges], servers: int) -> tuple[str, ...]:
    """Return the URLs of so many API servers inside the lab."""
    hosts = (ranges[0].api_server(number) for number in range(1, servers + 1))
    return tuple(f"https://{join_host_port(host, API_PORT)}" for host in hosts)
