"""Virtual servers of IPVS, and the IP sets and addresses of mode ipvs, as explained lines.

proxy/ipvs/README.md lists the sets. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from bridgehead.insight.facts.network_state import Destination, Interface, VirtualServer
from bridgehead.network.ipvs import Server
from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.address_texts import AddressPort, Family
from bridgehead.proxy.frontends import ANY_LOCAL, FrontendKey
from bridgehead.proxy.ipvs import sets
from bridgehead.proxy.ipvs.readback import KernelState, Ownership
from bridgehead.proxy.ipvs.transaction import DUMMY

from .entries import IpvsObjects, KernelFrontend, Mechanism, RulesMode
from .expected_frontends import UNKNOWN, Found, Known, destination_text

_MODE = RulesMode.IPVS

_MEANINGS = {
    sets.CLUSTER_IP: "a cluster IP: clients outside the cluster are masqueraded",
    sets.EXTERNAL_IP: "an external IP: its clients are masqueraded",
    sets.EXTERNAL_IP_LOCAL: "an external IP with traffic policy Local: pods see their client",
    sets.LOAD_BALANCER: "a load-balancer IP: its clients are masqueraded, unless it is in a set of policy Local",
    sets.LOAD_BALANCER_LOCAL: "a load-balancer IP with traffic policy Local: pods see their client",
    sets.GUARDED: "a load-balancer IP with source ranges: other clients are dropped",
    sets.SOURCE_CIDR: "a client range that the source ranges allow",
    sets.SOURCE_IP: "a client that the source ranges allow: this node itself",
    sets.LOOP_BACK: "a pod that connects to itself through a Service: it is masqueraded",
    sets.BOUND: "an address of kube-ipvs0: its other ports are rejected",
    sets.HEALTH_CHECK: "the port of a load balancer's health check: accepted",
    sets.MASQUERADED: "a cluster IP whose clients are all masqueraded",
    sets.DROPPED: "a destination without a backend on this node (traffic policy Local): dropped",
    sets.CLUSTER_CLIENTS: "a destination with other backends for clients in the cluster: their packets get this mark",
    **{
        sets.node_ports(protocol, local=local): f"a node port{' with traffic policy Local' if local else ''}"
        for protocol in sets.PROTOCOLS
        for local in (False, True)
    },
}


# Elements as the mode writes them. Other programs may add others, and programs of an image may print anything.
_ENDPOINT = r"[0-9a-f.:]+,(?:tcp|udp|sctp):\d{1,5}"
_FORMS: Final = {
    "bitmap:port": re.compile(r"\d{1,5}"),
    "hash:ip": re.compile(r"[0-9a-f.:]+"),
    "hash:ip,port": re.compile(rf"{_ENDPOINT}(?: skbmark 0x[0-9a-f]{{1,8}}/0x[0-9a-f]{{1,8}})?"),
    "hash:ip,port,ip": re.compile(rf"{_ENDPOINT},[0-9a-f.:]+"),
    "hash:ip,port,net": re.compile(rf"{_ENDPOINT},[0-9a-f.:]+(?:/\d{{1,3}})?"),
}
_BASES: Final[Mapping[str, tuple[str, Family]]] = {
    sets.in_family(base, family): (base, family) for base in _MEANINGS for family in (4, 6)
}
_KINDS: Final = {name: kind.kind for family in (4, 6) for name, kind in sets.wanted(family).items()}


class SetElement(NamedTuple):
    """An element as `ipset save` prints it. `name`: of the set; `base`: without the family; `text`: the element."""

    name: str
    base: str
    family: Family
    text: str

    @classmethod
    def of(cls, name: str, text: str) -> SetElement:
        """Return an element of a set of this mode. Raises KeyError for another set."""
        return cls(name, *_BASES[name], text)

    @property
    def is_wellformed(self) -> bool:
        """Whether the mode writes such elements."""
        return _FORMS[_KINDS[self.name]].fullmatch(self.text) is not None

    @property
    def endpoint(self) -> tuple[str, str, int] | None:
        """Address, protocol and port; None for an element that has only one of them."""
        parts = self.text.partition(" ")[0].split(",")
        if len(parts) < 2:
            return None
        protocol, _, port = parts[1].partition(":")
        return (parts[0], protocol, int(port)) if port.isdigit() else None

    @property
    def mark(self) -> int:
        """The mark that packets get; 0 without one."""
        text = self.text.partition(" skbmark ")[2].partition("/")[0]
        try:
            return int(text, 16) if text else 0
        except ValueError:
            return 0


def parse_sets(listing: bytes) -> Iterator[SetElement]:
    """Yield the elements of this mode's sets, from `ipset save`."""
    for line in listing.decode(errors="replace").splitlines():
        match line.split(" ", 2):
            case ["add", name, text] if name in _BASES:
                yield SetElement.of(name, text)


def read_virtual_servers(
    servers: Iterable[VirtualServer], ip_sets: bytes, interfaces: Iterable[Interface], known: Known, found: Found
) -> None:
    """Add the lines of virtual servers, of sets and of kube-ipvs0, and what they serve.

    `interfaces`: all of the node, or none if they were not read.
    """
    parsed = list(parse_sets(ip_sets))
    elements = [one for one in parsed if one.is_wellformed]
    servers = list(_of_proxies(servers, elements, known))
    addresses = {one.name: tuple(text.partition("/")[0] for text in one.addresses) for one in interfaces}
    if not parsed and not servers:
        return
    found.ipvs = IpvsObjects(tuple(servers), tuple((one.name, one.text) for one in elements), addresses or None)
    keys = DestinationKeys(elements, known)
    served = found.frontends.setdefault(_MODE, {})
    served.update(_frontends(servers, elements, keys, known))
    owners = {key: frontend.service for key, frontend in served.items()}
    marks = {element.mark: keys.of(*element.endpoint) for element in elements if element.mark and element.endpoint}
    for server in servers:
        key = keys.of(server.address, server.protocol, server.port) if not server.mark else marks.get(server.mark)
        _server(server, key, owners.get(key, "") if key is not None else "", known, found)
    for element in parsed:
        _set_element(element, keys, known, found)
    for address in addresses.get(DUMMY, ()):
        _address(address, known, found)


def _of_proxies(
    servers: Iterable[VirtualServer], elements: Iterable[SetElement], known: Known
) -> Iterator[VirtualServer]:
    """Leave out the virtual servers of other programs: those at addresses and with marks that the sets do not have."""
    kernel = KernelState()
    for element in elements:
        kind = sets.wanted(element.family)[element.name]
        kernel.sets.setdefault(element.name, (kind, set()))[1].add(element.text)
    is_ours = Ownership(kernel)
    for one in servers:
        key = FrontendKey(one.address, one.protocol, one.port)
        is_expected = not one.mark and (known.explains(key) or known.explains(key.node_port))
        if is_expected or is_ours(Server(one.family, one.address, one.protocol, one.port, one.mark)):
            yield one


class DestinationKeys:
    """The Frontends of addresses and ports: an address of the node with a node port is none of its own."""

    def __init__(self, elements: Iterable[SetElement], known: Known) -> None:
        self._known = known
        self._own: set[tuple[str, str, int]] = set()
        self._node_ports: set[tuple[Family, str, int]] = set()
        for element in elements:
            endpoint = element.endpoint
            if element.base.startswith("KUBE-NODE-PORT"):
                if endpoint is not None:
                    self._node_ports.add((element.family, endpoint[1], endpoint[2]))
                elif element.text.isdigit():
                    protocol = "udp" if element.base.endswith("UDP") else "tcp"
                    # Bitmaps have no family: one set of each name is of IPv4.
                    self._node_ports.add((element.family, protocol, int(element.text)))
            elif endpoint is not None and element.base in (
                sets.CLUSTER_IP, sets.EXTERNAL_IP, sets.EXTERNAL_IP_LOCAL, sets.LOAD_BALANCER,
            ):  # fmt: skip
                self._own.add(endpoint)

    def of(self, address: str, protocol: str, port: int) -> FrontendKey:
        key = FrontendKey(address, protocol, port)
        if key in self._known.frontends or (address, protocol, port) in self._own:
            return key
        is_node_port = (key.family, protocol, port) in self._node_ports or key.node_port in self._known.frontends
        return key.node_port if is_node_port else key

    def of_element(self, element: SetElement) -> FrontendKey | None:
        """Return the Frontend that an element of a set is there for; None if it is there for many, or for a backend."""
        if element.base in (sets.LOOP_BACK, sets.HEALTH_CHECK, sets.BOUND):
            return None
        if element.endpoint is not None:
            return self.of(*element.endpoint)
        if not element.text.isdigit():
            return None
        protocol = "udp" if element.base.endswith("UDP") else "tcp"
        return FrontendKey(ANY_LOCAL[element.family], protocol, int(element.text))


def _frontends(
    servers: Iterable[VirtualServer], elements: Iterable[SetElement], keys: DestinationKeys, known: Known
) -> dict[FrontendKey, KernelFrontend]:
    by_mark = {(server.family, server.mark): _serving(server.destinations) for server in servers if server.mark}
    cluster: dict[FrontendKey, tuple[AddressPort, ...]] = {}
    dropped: set[FrontendKey] = set()
    for element in elements:
        endpoint = element.endpoint
        if endpoint is None:
            continue
        if element.mark and (element.family, element.mark) in by_mark:
            cluster[keys.of(*endpoint)] = by_mark[element.family, element.mark]
        if element.base == sets.DROPPED:
            dropped.add(keys.of(*endpoint))
    found: dict[FrontendKey, KernelFrontend] = {}
    for server in servers:
        if server.mark:
            continue
        key = keys.of(server.address, server.protocol, server.port)
        backends = _serving(server.destinations)
        if key in found:  # a node port has a virtual server on each address: only what all have counts
            backends = tuple(one for one in backends if one in found[key].backends)
        found[key] = KernelFrontend(
            key=key,
            service=known.owner(key),
            backends=backends,
            cluster_backends=cluster.get(key),
        )
    for key in (dropped | cluster.keys()) - found.keys():
        found[key] = KernelFrontend(
            key=key,
            service=known.owner(key),
            cluster_backends=cluster.get(key),
            verdict="drop" if key in dropped else "",
        )
    return found


def _serving(destinations: Iterable[Destination]) -> tuple[AddressPort, ...]:
    """Return the real servers that get new connections."""
    return tuple((one.address, one.port) for one in destinations if one.weight > 0)


def _server(server: VirtualServer, key: FrontendKey | None, service: str, known: Known, found: Found) -> None:
    explained = key is not None and known.explains(key)
    where = destination_text(key) if key is not None else "an unknown mark"
    clients = " for clients in the cluster" if server.mark else ""
    count = len(_serving(server.destinations))
    meaning = f"Connections to {where}{clients}: one of {count} backends, by scheduler {server.scheduler}."
    if server.persistent_seconds is not None:
        duration = f" for {server.persistent_seconds} s" if server.persistent_seconds else ""
        meaning = f"{meaning[:-1]}; a client keeps its backend{duration}."
    head = server_line(server)
    found.add(
        _MODE, Mechanism.IPVS, "virtual server", head, meaning, frontend=key, service=service, explained=explained
    )
    for one in server.destinations:
        backend = (one.address, one.port)
        to = join_host_port(*backend)
        meaning = f"A backend of {where}{clients}: {to}."
        if one.weight == 0:
            meaning = f"A former backend of {where}: {to} keeps its open connections and gets no new ones."
        found.add(
            _MODE,
            Mechanism.IPVS,
            f"virtual server {head.split()[1]}",
            destination_line(one),
            meaning,
            frontend=key,
            service=service,
            backend=backend,
            explained=explained,
        )


def server_line(server: VirtualServer) -> str:
    """Return the line of a virtual server as `ipvsadm -Ln` prints it."""
    where = (
        f"FWM  {server.mark}{' IPv6' if server.family == 6 else ''}"
        if server.mark
        else f"{server.protocol.upper():<4} {join_host_port(server.address, server.port)}"
    )
    persistent = f" persistent {server.persistent_seconds or ''}" if server.persistent_seconds is not None else ""
    return f"{where} {server.scheduler}{persistent}".rstrip()


def destination_line(one: Destination) -> str:
    """Return the line of a real server as `ipvsadm -Ln` prints it."""
    return (
        f"  -> {join_host_port(one.address, one.port):<28} {one.forwarding:<7} {one.weight:<6} "
        f"{one.active:<10} {one.inactive}"
    ).rstrip()


def _set_element(element: SetElement, keys: DestinationKeys, known: Known, found: Found) -> None:
    key = keys.of_element(element) if element.is_wellformed else None
    service, explained = "", element.is_wellformed
    if element.base == sets.BOUND:
        service, explained = known.addresses.get(element.text, ""), known.explains(address=element.text)
    if key is not None:
        service, explained = known.owner(key), known.explains(key)
    meaning = _MEANINGS.get(element.base, "")
    found.add(
        _MODE,
        Mechanism.IP_SET,
        f"set {element.name}",
        element.text,
        f"{element.text.partition(' ')[0]} is {meaning}." if meaning else UNKNOWN,
        frontend=key,
        service=service,
        explained=explained,
    )


def _address(address: str, known: Known, found: Found) -> None:
    found.add(
        _MODE,
        Mechanism.ADDRESS,
        f"interface {DUMMY}",
        f"inet{'6' if ':' in address else ''} {address}/{128 if ':' in address else 32} scope global {DUMMY}",
        f"The node receives packets to {address}, and IPVS sees them.",
        service=known.addresses.get(address, ""),
        explained=known.explains(address=address),
    )
