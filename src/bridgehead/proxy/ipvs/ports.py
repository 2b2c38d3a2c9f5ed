"""What one Service port asks of the kernel: virtual servers, elements of IP sets, addresses. Pure; for `render.py`.

A virtual server has one list of real servers, whoever connects to it. With externalTrafficPolicy Local, who is in the
cluster is to be served by all backends, and others by those on this node. So there is one more virtual server, for a
mark that the rules put on packets of who is inside, by an IP set. Should another program change the mark, the virtual
server on the address serves, as kube-proxy's would.

IPVS remembers clients for each virtual server by itself, and with a mark it would forget to translate the port then. So
that a sticky client meets the same pod on every address of its Service, its first choice is by a hash of the client
(scheduler sh) where there is more than one address; and behind a mark, every choice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from bridgehead.network.ipvs import SOURCE_HASH, Destination, Scheduling, Server
from bridgehead.proxy.addresses import EVERYWHERE, family_of
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, Publication, SourceNat, Verdict
from bridgehead.proxy.iptables.ports import PortKey

from . import sets
from .chains import MARK_MASK

Element = tuple[str, str]  # the name of a set, and what is in it
Place = tuple[str, int]  # an address and a port on which the Service answers


class Node(NamedTuple):
    """The node's own addresses, canonical, without any Service's: all of them, and those that answer on node ports.

    `claimed`: what is answered by its address. Where that is the node's, and the port a node port, it goes before.
    """

    own: frozenset[str] = frozenset()
    node_ports: tuple[str, ...] = ()
    claimed: Set[FrontendKey] = frozenset()


class PortState(NamedTuple):
    """What is to be there. Elements and addresses may be other Service ports', too.

    A virtual server without destinations is not to be there, but may go gracefully. Elements of the set with marks
    have them in their text.
    """

    servers: dict[Server, tuple[Scheduling, frozenset[Destination]]]
    elements: frozenset[Element]
    addresses: frozenset[str]


NOTHING = PortState({}, frozenset(), frozenset())


def needs_mark(frontends: Iterable[Frontend], node: Node) -> bool:
    """Whether who is in the cluster is served by other backends, somewhere."""
    return any(_differs_inside(frontend) and any(places_of(frontend, node)) for frontend in frontends)


def render_port(
    port: PortKey, frontends: Iterable[Frontend], node: Node, mark: int | None, scheduler: str
) -> PortState:
    """The state of one Service port, whose Frontends these are, in any order; `mark` of who is in the cluster."""
    servers: dict[Server, tuple[Scheduling, frozenset[Destination]]] = {}
    elements: set[Element] = set()
    addresses: set[str] = set()
    family = port.family
    frontends = sorted(frontends, key=lambda frontend: frontend.key)
    affinity = next((one.affinity_seconds for one in frontends if one.affinity_seconds is not None), 0)
    places = sum(1 for frontend in frontends for _ in places_of(frontend, node))
    scheduling = _scheduling("sh" if affinity and places > 1 else scheduler, affinity)
    for frontend in frontends:
        destinations = _destinations(frontend.backends)
        for address, number in places_of(frontend, node):
            servers[Server(family, address, port.protocol, number)] = (scheduling, destinations)
        if mark is not None and _differs_inside(frontend):
            inside = _scheduling("sh" if affinity else scheduler)
            servers[Server(family, "", "", 0, mark)] = (inside, _destinations(frontend.inside or ()))
        if not frontend.key.is_node_port:
            addresses.add(frontend.key.address)
        elements.update(
            (sets.in_family(name, family), element) for name, element in _elements(port, frontend, node, mark)
        )
    return PortState(servers, frozenset(elements), frozenset(addresses))


def _scheduling(scheduler: str, affinity: int = 0) -> Scheduling:
    # With mh a client's port counts, too, as in kube-proxy: else all its connections would go to one pod.
    return Scheduling(scheduler, affinity, SOURCE_HASH if scheduler == "mh" else 0)


def places_of(frontend: Frontend, node: Node) -> Iterator[Place]:
    _, protocol, port = frontend.key
    if not frontend.key.is_node_port:
        yield frontend.key.address, port
        return
    for address in node.node_ports:
        if family_of(address) == frontend.key.family and FrontendKey(address, protocol, port) not in node.claimed:
            yield address, port


def _destinations(backends: Iterable[Backend]) -> frozenset[Destination]:
    return frozenset(Destination(backend.address, backend.port) for backend in backends)


def _differs_inside(frontend: Frontend) -> bool:
    return bool(frontend.inside) and _destinations(frontend.inside or ()) != _destinations(frontend.backends)


def _elements(port: PortKey, frontend: Frontend, node: Node, mark: int | None) -> Iterator[Element]:
    """By the sets' names in IPv4."""
    protocol = port.protocol
    places = [f"{address},{protocol}:{number}" for address, number in places_of(frontend, node)]
    # A pod reaches itself by its own node, but for who is inside, and not masqueraded, by any.
    may_loop = [backend for backend in frontend.backends if backend.is_local or not backend.node]
    for backend in (*may_loop, *(frontend.inside or ())):
        yield sets.LOOP_BACK, f"{backend.address},{protocol}:{backend.port},{backend.address}"
    if frontend.key.is_node_port:
        yield from _node_port_elements(port, frontend, places)
    elif frontend.backends or frontend.inside:
        for name in _published_in(frontend):
            yield from ((name, place) for place in places)
    if not frontend.backends and frontend.when_empty is Verdict.DROP:
        yield from ((sets.DROPPED, place) for place in places)
    if mark is not None and _differs_inside(frontend):
        yield from ((sets.INSIDE, f"{place} skbmark {mark:#x}/{MARK_MASK:#x}") for place in places)
    if frontend.health_check_port:
        yield sets.HEALTH_CHECK, str(frontend.health_check_port)
    if frontend.source_ranges is not None and EVERYWHERE[port.family] not in frontend.source_ranges:
        yield from _guard(frontend, places, node)


def _published_in(frontend: Frontend) -> Iterator[str]:
    """The sets in which its places are; they say who is masqueraded."""
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


def _node_port_elements(port: PortKey, frontend: Frontend, places: list[str]) -> Iterator[Element]:
    """Even without backends: they tell whose the virtual servers on the node's own addresses are."""
    for local in (False, True) if frontend.source_nat is not SourceNat.ALWAYS else (False,):
        name = sets.node_ports(port.protocol, local=local)
        if port.protocol == "sctp":
            yield from ((name, place) for place in places)
        else:
            yield name, str(frontend.key.port)


def _guard(frontend: Frontend, places: list[str], node: Node) -> Iterator[Element]:
    """Who may use a load-balancer address. The node connects to it from that address itself."""
    networks = [ipaddress.ip_network(cidr) for cidr in frontend.source_ranges or ()]
    own = [ipaddress.ip_address(address) for address in node.own]
    admits_node = any(address in network for network in networks for address in own)
    for place in places:
        yield sets.GUARDED, place
        for network in networks:
            host = network.prefixlen == network.max_prefixlen
            yield sets.SOURCE_CIDR, f"{place},{network.network_address if host else network}"
        if admits_node:
            yield sets.SOURCE_IP, f"{place},{frontend.key.address}"
