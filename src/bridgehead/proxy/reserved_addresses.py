"""Addresses and ports that no Service may take over by its externalIPs or its load balancer's status (CVE-2020-8554).

Otherwise a user who may write Services could receive the traffic of all pods and nodes to the API server, to a kubelet,
to the cluster's DNS pods, or to another Service. `service_frontends.py` checks each address while it compiles, so
no mode renders a reserved one. An address of a node is not reserved as a whole: its ports are, where the node's own
parts listen, and the node itself decides. Addresses that belong to other Services: `objects/address_holders.py`.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable

import msgspec

from bridgehead.network.listening_ports import Listener
from bridgehead.objects.core import Node
from bridgehead.objects.endpoint_slices import EndpointSlice

from .address_texts import canonical_address, canonical_cidr, family_of
from .frontends import ANY_LOCAL

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

KUBELET_PORT = 10250
_BROADCAST = "255.255.255.255"


class NodeAddress(enum.Enum):
    """The node to which an address belongs."""

    OWN = enum.auto()  # of the node that this proxy serves
    OTHER = enum.auto()  # of another node, whose proxy serves it: the packets go there


class Reserved(msgspec.Struct, frozen=True):
    """Reserved addresses.

    `owners`: canonical address -> description of its owner. `ranges`: with a description of what has addresses there.
    `nodes`: canonical address -> whose. `ports`: protocol and port -> what of this node listens there.
    """

    owners: dict[str, str] = {}
    ranges: tuple[tuple[Network, str], ...] = ()
    nodes: dict[str, NodeAddress] = {}
    ports: dict[tuple[str, int], str] = {}

    def owner_of(self, address: str) -> str | None:
        """Return the description of the owner of a canonical address; None if a Service may use the address."""
        owner = self.owners.get(address)
        if owner is not None:
            return owner
        ip = ipaddress.ip_address(address)
        if ip.is_loopback:
            return "a loopback address"
        if ip.is_link_local:
            return "a link-local address"
        if ip.is_multicast:
            return "a multicast address"
        if address == _BROADCAST:
            return "the broadcast address"
        if address in self.nodes:
            return None
        return next((what for network, what in self.ranges if ip.version == network.version and ip in network), None)


NOTHING_RESERVED = Reserved()


def plan_reserved(
    node_name: str,
    own_addresses: Iterable[str],
    nodes: Iterable[Node],
    api_slices: Iterable[EndpointSlice],
    api_addresses: Iterable[str],
    service_cidrs: Iterable[str],
    cluster_cidrs: Iterable[str],
    listeners: Iterable[Listener],
    gateways: Iterable[str] = (),
) -> Reserved:
    """Return what is reserved on the node `node_name`.

    `own_addresses`: the node's, beside those of its Node. `api_slices`: EndpointSlices of the Service `kubernetes`.
    `api_addresses`: the addresses of the proxy's own client. `cluster_cidrs`: the configured ranges of pods, beside
    those of Nodes. `listeners`: sockets of the node's processes. `gateways`: the node's routers, which are often its
    name servers, too.
    """
    nodes = list(nodes)
    owns = {address: NodeAddress.OWN for address in map(canonical_address, own_addresses) if address is not None}
    kubelet_port = KUBELET_PORT
    for node in nodes:
        is_own = node.metadata.name == node_name
        for address in map(canonical_address, (one.address for one in node.status.addresses)):
            if address is not None:
                owns.setdefault(address, NodeAddress.OWN if is_own else NodeAddress.OTHER)
        if is_own:
            kubelet_port = _kubelet_port(node)
    ports: dict[tuple[str, int], str] = {}
    owners: dict[str, str] = {}
    for address, port in _api_servers(api_slices, api_addresses):
        whose = owns.get(address)
        if whose is None:
            owners[address] = "an address of the API server"
        elif whose is NodeAddress.OWN and port:
            ports["tcp", port] = "the API server"
    for address in gateways:
        if address not in owns:
            owners.setdefault(address, "an address of the nodes' router")
    ports.setdefault(("tcp", kubelet_port), "the kubelet")
    for listener in listeners:
        if listener.address in ANY_LOCAL.values() or owns.get(listener.address) is NodeAddress.OWN:
            ports.setdefault((listener.protocol, listener.port), "a process of the node")
    pods = {cidr for node in nodes for cidr in (*node.spec.pod_cidrs, node.spec.pod_cidr)}
    ranges = [(network, "in the range of cluster IPs") for network in _networks(service_cidrs)]
    ranges += [(network, "in the range of pods") for network in _networks((*sorted(pods), *cluster_cidrs))]
    return Reserved(owners, tuple(ranges), owns, ports)


def _api_servers(slices: Iterable[EndpointSlice], addresses: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Yield the addresses of the API server with their ports; 0: not known."""
    for slice_ in slices:
        ports = [port.port for port in slice_.ports or () if port.port]
        for endpoint in slice_.endpoints:
            for address in map(canonical_address, endpoint.addresses):
                if address is not None:
                    yield from ((address, port) for port in ports or [0])
    for address in map(canonical_address, addresses):
        if address is not None:
            yield address, 0


def _kubelet_port(node: Node) -> int:
    endpoint = node.status.daemon_endpoints.get("kubeletEndpoint")
    port = endpoint.get("Port") if isinstance(endpoint, dict) else None
    return port if isinstance(port, int) and 0 < port <= 65535 else KUBELET_PORT


def _networks(cidrs: Iterable[str]) -> list[Network]:
    """Return ranges as few networks as possible: those of a thousand nodes are mostly one."""
    found = [cidr for cidr in map(canonical_cidr, cidrs) if cidr is not None]
    networks: list[Network] = []
    for family in (4, 6):
        of_family = [ipaddress.ip_network(cidr) for cidr in found if family_of(cidr) == family]
        networks += ipaddress.collapse_addresses(of_family)  # type: ignore[type-var]
    return networks
