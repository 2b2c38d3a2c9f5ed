"""The kernel's state for one Service port: virtual servers, elements of IP sets, addresses. For `render.py`.

Pure: no I/O, no clock, no randomness. A virtual server has one list of real servers for all clients. With
externalTrafficPolicy Local, clients in the cluster are served by all backends, others by those on this node. There is
therefore one more virtual server, for a mark that the rules set on packets of clients in the cluster, by an IP set. If
another program changes the mark, the virtual server of the address serves, as kube-proxy's would.

IPVS has the persistence of clients for each virtual server by itself, and with persistence and a mark it does not
translate the port. A client has to get the same pod on every address of a Service with affinity. Its first choice is
therefore by a hash of the client (scheduler sh) if there is more than one address; with a mark, every choice is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from bridgehead.network.ipvs import Destination, Scheduling, Server
from bridgehead.network.uapi.ip_vs import IP_VS_SVC_F_SCHED2
from bridgehead.proxy.address_texts import EVERYWHERE, AddressPort, family_of, is_loopback
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, Publication, SourceNat, Verdict
from bridgehead.proxy.iptables.ports import PortKey

from . import sets
from .chains import MARK_MASK

Element = tuple[str, str]  # the name of a set, and the text of an element


class Node(NamedTuple):
    """The node's own addresses, canonical, without those of Services: all of them, and those with node ports.

    `claimed`: the Frontends other than node ports. A Frontend on an address of the node precedes a node port of that
    number.
    """

    own: frozenset[str] = frozenset()
    node_ports: tuple[str, ...] = ()
    claimed: Set[FrontendKey] = frozenset()


class PortState(NamedTuple):
    """The wanted state of a Service port. Other Service ports may have the same elements and addresses.

    A virtual server without destinations is unwanted, but may terminate gracefully. The text of an element of the set
    with marks includes its mark.
    """

    servers: dict[Server, tuple[Scheduling, frozenset[Destination]]]
    elements: frozenset[Element]
    addresses: frozenset[str]


NOTHING = PortState({}, frozenset(), frozenset())


def needs_mark(frontends: Iterable[Frontend], node: Node) -> bool:
    """Return whether clients in the cluster have other backends than others, on some address."""
    return any(_has_other_cluster_backends(frontend) and any(addresses_of(frontend, node)) for frontend in frontends)


def render_port(
    port: PortKey, frontends: Iterable[Frontend], node: Node, mark: int | None, scheduler: str
) -> PortState:
    """Return the state of a Service port with these Frontends, in any order. `mark`: of clients in the cluster."""
    servers: dict[Server, tuple[Scheduling, frozenset[Destination]]] = {}
    elements: set[Element] = set()
    addresses: set[str] = set()
    family = port.family
    frontends = sorted(frontends, key=lambda frontend: frontend.key)
    affinity = next((one.affinity_seconds for one in frontends if one.affinity_seconds is not None), 0)
    count = sum(1 for frontend in frontends for _ in addresses_of(frontend, node))
    scheduling = _scheduling("sh" if affinity and count > 1 else scheduler, affinity)
    for frontend in frontends:
        destinations = _destinations(frontend.backends)
        for address, number in addresses_of(frontend, node):
            servers[Server(family, address, port.protocol, number)] = (scheduling, destinations)
        if mark is not None and _has_other_cluster_backends(frontend):
            by_mark = _scheduling("sh" if affinity else scheduler)
            servers[Server(family, "", "", 0, mark)] = (by_mark, _destinations(frontend.cluster_backends or ()))
        if not frontend.key.is_node_port:
            addresses.update(address for address, _ in addresses_of(frontend, node))
        elements.update(
            (sets.in_family(name, family), element) for name, element in _elements(port, frontend, node, mark)
        )
    return PortState(servers, frozenset(elements), frozenset(addresses))


def _scheduling(scheduler: str, affinity: int = 0) -> Scheduling:
    # With mh, the client's port is hashed too, as in kube-proxy; otherwise all of a client's connections had one pod.
    return Scheduling(scheduler, affinity, IP_VS_SVC_F_SCHED2 if scheduler == "mh" else 0)


def addresses_of(frontend: Frontend, node: Node) -> Iterator[AddressPort]:
    address, protocol, port = frontend.key
    if is_loopback(address):  # IPVS forwards no packet with a loopback address (crosses_local_route_boundary)
        return
    if not frontend.key.is_node_port:
        yield address, port
        return
    for address in node.node_ports:
        if family_of(address) == frontend.key.family and FrontendKey(address, protocol, port) not in node.claimed:
            yield address, port


def _destinations(backends: Iterable[Backend]) -> frozenset[Destination]:
    return frozenset(Destination(backend.address, backend.port) for backend in backends)


def _has_other_cluster_backends(frontend: Frontend) -> bool:
    return bool(frontend.cluster_backends) and _destinations(frontend.cluster_backends or ()) != _destinations(
        frontend.backends
    )


def _elements(port: PortKey, frontend: Frontend, node: Node, mark: int | None) -> Iterator[Element]:
    """Yield the elements, with the sets' names in IPv4."""
    protocol = port.protocol
    endpoints = [f"{address},{protocol}:{number}" for address, number in addresses_of(frontend, node)]
    # A pod reaches itself through its own node. As a client in the cluster, not masqueraded, it may do so anywhere.
    may_loop = [backend for backend in frontend.backends if backend.is_local or not backend.node]
    for backend in (*may_loop, *(frontend.cluster_backends or ())):
        yield sets.LOOP_BACK, f"{backend.address},{protocol}:{backend.port},{backend.address}"
    if frontend.key.is_node_port:
        yield from _node_port_elements(port, frontend, endpoints)
    elif frontend.backends or frontend.cluster_backends:
        for name in _published_in(frontend):
            yield from ((name, endpoint) for endpoint in endpoints)
    if not frontend.backends and frontend.when_empty is Verdict.DROP:
        yield from ((sets.DROPPED, endpoint) for endpoint in endpoints)
    if mark is not None and _has_other_cluster_backends(frontend):
        yield from ((sets.CLUSTER_CLIENTS, f"{one} skbmark {mark:#x}/{MARK_MASK:#x}") for one in endpoints)
    if frontend.health_check_port:
        yield sets.HEALTH_CHECK, str(frontend.health_check_port)
    if frontend.source_ranges is not None and EVERYWHERE[port.family] not in frontend.source_ranges:
        yield from _guard(frontend, endpoints, node)


def _published_in(frontend: Frontend) -> Iterator[str]:
    """Yield the sets that contain the Frontend's addresses; the set decides which clients are masqueraded."""
    is_local = frontend.source_nat is not SourceNat.ALWAYS
    match frontend.published_as:
        case Publication.CLUSTER_IP:
            yield sets.CLUSTER_IP
            if not is_local:
                yield sets.MASQUERADED
        case Publication.EXTERNAL_IP:
            yield sets.EXTERNAL_IP_LOCAL if is_local else sets.EXTERNAL_IP
        case Publication.LOAD_BALANCER:
            yield sets.LOAD_BALANCER
            if is_local:
                yield sets.LOAD_BALANCER_LOCAL


def _node_port_elements(port: PortKey, frontend: Frontend, endpoints: list[str]) -> Iterator[Element]:
    """Yield the elements, even without backends: by them, virtual servers on the node's own addresses are ours."""
    for local in (False, True) if frontend.source_nat is not SourceNat.ALWAYS else (False,):
        name = sets.node_ports(port.protocol, local=local)
        if port.protocol == "sctp":
            yield from ((name, endpoint) for endpoint in endpoints)
        else:
            yield name, str(frontend.key.port)


def _guard(frontend: Frontend, endpoints: list[str], node: Node) -> Iterator[Element]:
    """Yield the sources that may use a load-balancer address. The node connects to it from that address itself."""
    networks = [ipaddress.ip_network(cidr) for cidr in frontend.source_ranges or ()]
    own = [ipaddress.ip_address(address) for address in node.own]
    admits_node = any(address in network for network in networks for address in own)
    for endpoint in endpoints:
        yield sets.GUARDED, endpoint
        for network in networks:
            host = network.prefixlen == network.max_prefixlen
            yield sets.SOURCE_CIDR, f"{endpoint},{network.network_address if host else network}"
        if admits_node:
            yield sets.SOURCE_IP, f"{endpoint},{frontend.key.address}"
