"""Addresses that no Service may take over by its externalIPs or its load balancer's status (CVE-2020-8554).

Otherwise a user who may write Services could receive the traffic of all pods and nodes to the API server, to a kubelet,
or to another Service. `services.py` checks each address while it compiles, so no mode renders a reserved address.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import msgspec

from bridgehead.objects.core import Node
from bridgehead.objects.endpoint_slices import EndpointSlice

from .addresses import canonical_address, family_of

_LINK_LOCAL_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}


class Reserved(msgspec.Struct, frozen=True):
    """Reserved addresses. `owners`: canonical address -> description of its owner. `service_cidrs`: of cluster IPs."""

    owners: dict[str, str] = {}
    service_cidrs: tuple[str, ...] = ()

    def owner_of(self, address: str) -> str | None:
        """Return the description of the owner of a canonical address; None if a Service may use the address."""
        owner = self.owners.get(address)
        if owner is not None:
            return owner
        ip = ipaddress.ip_address(address)
        if ip.is_loopback:
            return "a loopback address"
        if ip.is_link_local or ip in _LINK_LOCAL_MULTICAST[family_of(address)]:
            return "a link-local address"
        if any(ip in ipaddress.ip_network(cidr) for cidr in self.service_cidrs):
            return "in the range of cluster IPs"
        return None


NOTHING_RESERVED = Reserved()


def plan_reserved(
    nodes: Iterable[Node],
    api_slices: Iterable[EndpointSlice],
    api_addresses: Iterable[str],
    service_cidrs: tuple[str, ...],
) -> Reserved:
    """Return the addresses of Nodes and of the API server.

    `api_slices`: EndpointSlices of the Service `kubernetes`. `api_addresses`: the addresses of the proxy's own client.
    """
    owners: dict[str, str] = {}
    advertised = (address for slice_ in api_slices for endpoint in slice_.endpoints for address in endpoint.addresses)
    for text in (*api_addresses, *advertised):
        owners.setdefault(text, "an address of the API server")
    for node in nodes:
        for address in node.status.addresses:
            owners.setdefault(address.address, f"an address of node {node.metadata.name[:63]}")
    canonical = ((canonical_address(text), owner) for text, owner in owners.items())
    return Reserved({address: owner for address, owner in canonical if address is not None}, service_cidrs)
