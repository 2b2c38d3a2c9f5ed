"""Live connections by Service, from the connection tracking of all nodes.

A connection is one of a Service if its first packet was sent to a Service's address. Two nodes see the same one if a
client's node forwards it to another node, which translates it: it is counted once. In mode userspace a client's
connection ends at the proxy, which has one of its own to the backend: both are shown.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.frontends import Frontend, FrontendKey
from bridgehead.proxy.userspace.redirects import LISTENING

from .expectations import Expectations, service_of
from .facts.cluster_state import ClusterState
from .facts.network_state import AddressPort, Connection, NetworkState

_OPENING = frozenset(("SYN_SENT", "SYN_SENT2", "COOKIE_WAIT"))
_ENDED = frozenset(("TIME_WAIT", "CLOSE", "LAST_ACK", "SHUTDOWN_ACK_SENT"))


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A connection or UDP flow of a Service.

    `service`: `namespace/name:port`. `destination`: what the client connects to. `client` and `backend` have addresses;
    `client_name` and `backend_name` are `pod NAMESPACE/NAME` or `node NAME`, "" if nothing of the cluster has the
    address. `backend`: None if the connection was not translated. `age`: seconds; `sent` and `received`: bytes; None
    if the kernel does not record them. `nodes`: those that track it; the first one translates it.
    """

    service: str
    protocol: str
    destination: AddressPort
    client: AddressPort
    client_name: str = ""
    backend: AddressPort | None = None
    backend_name: str = ""
    state: str = ""
    age: float | None = None
    sent: int | None = None
    received: int | None = None
    nodes: tuple[str, ...] = ()
    is_unreplied: bool = False
    is_relayed: bool = False  # the proxy's own connection to a backend, in mode userspace
    problem: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it is neither ended nor without an answer."""
        return self.state not in _ENDED and not self.is_unreplied


class BackendUse(msgspec.Struct, frozen=True, kw_only=True):
    """The connections of one backend. `is_current`: new connections may get it."""

    backend: AddressPort
    name: str = ""
    open: int = 0
    ended: int = 0
    is_current: bool = True


class ServiceFlows(msgspec.Struct, frozen=True, kw_only=True):
    """The connections of one Service port, and its backends, also those without connections."""

    service: str
    flows: tuple[Flow, ...] = ()
    backends: tuple[BackendUse, ...] = ()


def find_flows(
    state: ClusterState,
    networks: Mapping[str, NetworkState],
    expected: Mapping[str, Expectations],
    services: Iterable[str] | None = None,
) -> list[ServiceFlows]:
    """Return the connections of Services, by Service port, in the order of their names.

    `networks` and `expected`: by node. `services`: only those, `namespace/name`; None: all.
    """
    wanted = set(services) if services is not None else None
    finder = _Finder(state, expected)
    found: dict[tuple[str, AddressPort, AddressPort], list[tuple[str, Connection]]] = {}
    for node, network in networks.items():
        for connection in network.connections:
            key = connection.protocol, connection.source, connection.destination
            found.setdefault(key, []).append((node, connection))
    flows = [flow for seen in _merged(found) if (flow := finder.flow(seen)) is not None]
    by_service: dict[str, list[Flow]] = {}
    for flow in flows:
        by_service.setdefault(flow.service, []).append(flow)
    current = finder.backends
    names = {*by_service, *current}
    return [
        ServiceFlows(
            service=name,
            flows=tuple(sorted(by_service.get(name, ()), key=lambda flow: (flow.client, flow.destination))),
            backends=finder.uses(by_service.get(name, ()), current.get(name, {})),
        )
        for name in sorted(names)
        if wanted is None or str(service_of(name)) in wanted
    ]


def _merged(
    found: Mapping[tuple[str, AddressPort, AddressPort], Sequence[tuple[str, Connection]]],
) -> Iterator[list[tuple[str, Connection]]]:
    """Yield each connection with the nodes that see it, the one that translates it first.

    A node that masquerades a connection without translating its destination sees it with the client's address, the
    node that translates the destination with the address of the first one.
    """
    joined: set[tuple[str, AddressPort, AddressPort]] = set()
    others: dict[tuple[str, AddressPort, AddressPort], list[tuple[str, Connection]]] = {}
    for key, seen in found.items():
        for _, connection in seen:
            outside = (connection.protocol, connection.reply_destination, connection.destination)
            if not _is_translated(connection) and outside != key and outside in found:
                joined.add(outside)
                others.setdefault(key, []).extend(found[outside])
    for key, seen in found.items():
        if key in joined:
            continue
        every = sorted((*seen, *others.get(key, ())), key=lambda each: not _is_translated(each[1]))
        client = seen[0][1].source
        yield [(node, msgspec.structs.replace(one, source=client)) for node, one in every]


def _is_translated(connection: Connection) -> bool:
    return connection.reply_source != connection.destination


class _Finder:
    """Looks up Services and names of addresses."""

    def __init__(self, state: ClusterState, expected: Mapping[str, Expectations]) -> None:
        self._expected = expected
        self._frontends: dict[FrontendKey, Frontend] = {}
        for each in expected.values():
            for frontend in each.table:
                self._frontends.setdefault(frontend.key, frontend)
        self._node_addresses = {address: node.metadata.name for address, node in state.nodes_by_address.items()}
        self._pods = state.pods_by_address
        self._relayed = self._relayed_backends()
        self._backends = self._present_backends()

    def flow(self, seen: Sequence[tuple[str, Connection]]) -> Flow | None:
        """Return a connection of a Service; None for any other."""
        node, connection = seen[0]
        key = FrontendKey(connection.destination.address, connection.protocol, connection.destination.port)
        frontend = self._frontends.get(key)
        if frontend is None and key.address in self._node_addresses:
            frontend = self._frontends.get(key.node_port)
        if frontend is None:
            return self._relay(node, connection, tuple(dict.fromkeys(each for each, _ in seen)))
        backend = connection.reply_source if _is_translated(connection) else None
        is_relayed_later = backend is not None and backend.address in LISTENING.values()
        problem = ""
        if connection.is_unreplied:
            problem = "no answer"
        elif backend is not None and not is_relayed_later and not self._is_current(frontend.owner, backend):
            problem = "the backend is none of the Service any more"
        return Flow(
            service=frontend.owner,
            protocol=connection.protocol,
            destination=connection.destination,
            client=connection.source,
            client_name=self._client_name(node, connection),
            backend=backend,
            backend_name=f"proxy of {node}" if is_relayed_later else self.name(backend.address) if backend else "",
            state=connection.state,
            age=connection.age,
            sent=connection.bytes[0] if connection.bytes is not None else None,
            received=connection.bytes[1] if connection.bytes is not None else None,
            nodes=tuple(dict.fromkeys(each for each, _ in seen)),
            is_unreplied=connection.is_unreplied or connection.state in _OPENING,
            problem=problem,
        )

    def _client_name(self, node: str, connection: Connection) -> str:
        """Return what of the cluster has the client's address. A node of mode ipvs connects from the Service's own."""
        source = connection.source.address
        is_own = source == connection.destination.address and source not in self._pods
        return f"node {node}" if is_own else self.name(source)

    def _relay(self, node: str, connection: Connection, nodes: tuple[str, ...]) -> Flow | None:
        """Return the connection of a proxy in mode userspace to a backend that only one Service port has."""
        owner = self._relayed.get((node, connection.protocol, connection.destination))
        if owner is None or self._node_addresses.get(connection.source.address) != node:
            return None
        return Flow(
            service=owner,
            protocol=connection.protocol,
            destination=connection.destination,
            client=connection.source,
            client_name=f"proxy of {node}",
            backend=connection.destination,
            backend_name=self.name(connection.destination.address),
            state=connection.state,
            age=connection.age,
            sent=connection.bytes[0] if connection.bytes is not None else None,
            received=connection.bytes[1] if connection.bytes is not None else None,
            nodes=nodes,
            is_unreplied=connection.is_unreplied or connection.state in _OPENING,
            is_relayed=True,
            problem="no answer" if connection.is_unreplied else "",
        )

    def _relayed_backends(self) -> dict[tuple[str, str, AddressPort], str]:
        """Return the Service ports of backends, on nodes in mode userspace, where only one has the backend."""
        found: dict[tuple[str, str, AddressPort], set[str]] = {}
        for node, each in self._expected.items():
            if each.mode != "userspace":
                continue
            for frontend in each.table:
                for backend in (*frontend.backends, *(frontend.cluster_backends or ())):
                    key = node, frontend.key.protocol, AddressPort(backend.address, backend.port)
                    found.setdefault(key, set()).add(frontend.owner)
        return {key: next(iter(owners)) for key, owners in found.items() if len(owners) == 1}

    def name(self, address: str) -> str:
        """Return what of the cluster has an address."""
        pod = self._pods.get(address)
        if pod is not None:
            return f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        node = self._node_addresses.get(address)
        return f"node {node}" if node is not None else ""

    @property
    def backends(self) -> Mapping[str, Mapping[AddressPort, None]]:
        """The present backends of each Service port."""
        return self._backends

    def _present_backends(self) -> dict[str, dict[AddressPort, None]]:
        found: dict[str, dict[AddressPort, None]] = {}
        for each in self._expected.values():
            for frontend in each.table:
                present = found.setdefault(frontend.owner, {})
                for backend in (*frontend.backends, *(frontend.cluster_backends or ())):
                    present[AddressPort(backend.address, backend.port)] = None
        return found

    def _is_current(self, owner: str, backend: AddressPort) -> bool:
        if any(service_of(owner) in each.unread for each in self._expected.values()):
            return True
        return backend in self._backends.get(owner, {})

    def uses(self, flows: Iterable[Flow], current: Mapping[AddressPort, None]) -> tuple[BackendUse, ...]:
        """Return the backends of a Service port, the present ones first, with the connections of each."""
        opened: Counter[AddressPort] = Counter()
        ended: Counter[AddressPort] = Counter()
        for flow in flows:
            if flow.backend is not None and flow.backend.address not in LISTENING.values():
                (opened if flow.is_open else ended)[flow.backend] += 1
        backends = sorted({*current, *opened, *ended}, key=lambda one: (one not in current, one))
        return tuple(
            BackendUse(
                backend=one,
                name=self.name(one.address),
                open=opened[one],
                ended=ended[one],
                is_current=one in current,
            )
            for one in backends
        )


# --- Text and JSON -------------------------------------------------------------------------------------------


def flow_rows(flows: Iterable[Flow]) -> list[tuple[str, ...]]:
    """Return a table of connections with its heading."""
    heading = ("CLIENT", "TO", "BACKEND", "STATE", "SINCE", "SENT", "RECEIVED", "NODE", "")
    return [heading, *map(_flow_row, flows)]


def _flow_row(flow: Flow) -> tuple[str, ...]:
    return (
        _named(flow.client_name, flow.client),
        join_host_port(*_pair(flow.destination)),
        _named(flow.backend_name, flow.backend) if flow.backend is not None else "-",
        flow.state or flow.protocol.upper(),
        "-" if flow.age is None else f"{flow.age:.0f}s",
        "-" if flow.sent is None else str(flow.sent),
        "-" if flow.received is None else str(flow.received),
        ",".join(flow.nodes),
        flow.problem,
    )


def backend_rows(uses: Iterable[BackendUse]) -> list[tuple[str, ...]]:
    """Return a table of backends with its heading."""
    rows: list[tuple[str, ...]] = [("BACKEND", "POD", "OPEN", "ENDED", "")]
    for one in uses:
        note = "" if one.is_current else "no backend any more"
        rows.append((join_host_port(*_pair(one.backend)), one.name or "-", str(one.open), str(one.ended), note))
    return rows


def service_as_json(service: ServiceFlows) -> dict[str, Any]:
    """Return a Service port with its backends and connections as JSON. Unknown numbers are null."""
    return {
        "service": service.service,
        "backends": [
            {
                "address": join_host_port(*_pair(one.backend)),
                "name": one.name,
                "open": one.open,
                "ended": one.ended,
                "isCurrent": one.is_current,
            }
            for one in service.backends
        ],
        "connections": list(map(_flow_as_json, service.flows)),
    }


def _flow_as_json(flow: Flow) -> dict[str, Any]:
    return {
        "protocol": flow.protocol,
        "client": join_host_port(*_pair(flow.client)),
        "clientName": flow.client_name,
        "destination": join_host_port(*_pair(flow.destination)),
        "backend": join_host_port(*_pair(flow.backend)) if flow.backend is not None else None,
        "backendName": flow.backend_name,
        "state": flow.state,
        "ageSeconds": flow.age,
        "bytesSent": flow.sent,
        "bytesReceived": flow.received,
        "nodes": list(flow.nodes),
        "isOpen": flow.is_open,
        "isRelayed": flow.is_relayed,
        "problem": flow.problem,
    }


def _named(name: str, where: AddressPort) -> str:
    text = join_host_port(*_pair(where))
    return f"{name} ({text})" if name else text


def _pair(where: AddressPort) -> tuple[str, int]:
    return where.address, where.port
