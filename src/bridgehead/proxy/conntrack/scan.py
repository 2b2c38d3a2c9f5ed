"""One scan of the kernel's flows: what to list, and which of the listed flows are stale. `stale.py` explains which are.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import AddressPort, Family
from bridgehead.proxy.frontend_table import FrontendTable
from bridgehead.proxy.frontends import ANY_LOCAL, Frontend, FrontendKey
from bridgehead.proxy.mode import Settings

from .reasons import ServicePort, StaleReason, backends_of, port_of

ANYWHERE: AddressPort = ("", 0)

MAX_QUERIES = 4  # the kernel walks all its flows for each query, so more queries are combined to fewer


class Flow(Protocol):
    """The properties of a flow that decide; see `network.conntrack.Flow`."""

    @property
    def destination(self) -> AddressPort: ...
    @property
    def reply_source(self) -> AddressPort: ...
    @property
    def is_established(self) -> bool: ...
    @property
    def zone(self) -> int: ...


class Query(NamedTuple):
    """The flows to list: by protocol, destination, and source of the replies. "" is any address, 0 any port."""

    family: Family
    protocol: str
    destination: AddressPort = ANYWHERE
    reply_source: AddressPort = ANYWHERE
    is_unanswered: bool = False


class NodeAddresses(NamedTuple):
    """The addresses of this node. `is_local` returns whether an address is one of them, and so may have node ports.

    `listeners` returns the sockets of the proxy itself, if its mode has any: flows to them are good.
    """

    is_local: Callable[[str], bool]
    listeners: Callable[[], Collection[AddressPort]] = tuple


class Scan:
    """One scan of the kernel's flows: what to list, and which of the listed flows are stale.

    `is_stale` may be called in another thread while the table changes. A decision on a newer state than the kernel's is
    made again when the kernel has that state.
    """

    def __init__(
        self,
        reasons: Iterable[StaleReason],
        settings: Settings,
        table: FrontendTable,
        known: Mapping[ObjectKey, Mapping[ServicePort, frozenset[AddressPort]]],
        node: NodeAddresses,
        *,
        is_everything: bool,
    ) -> None:
        self.reasons: dict[FrontendKey, StaleReason] = {}
        self.is_everything = is_everything
        for reason in reasons:
            if reason and reason.key.family in settings.families:
                self.reasons[reason.key] = reason.merged(self.reasons.get(reason.key))
        self._settings = settings
        self._table = table
        self._known = known
        self._is_local = node.is_local
        self._listeners = frozenset(node.listeners())
        self._service_ranges = _networks(settings.service_cidrs)
        self._node_port_ranges = None if settings.node_port_cidrs is None else _networks(settings.node_port_cidrs)

    def queries(self) -> Sequence[Query]:
        """Return what to list: as few flows as possible in few queries."""
        if self.is_everything:
            is_of_attempts = all(
                reason.is_of_attempts for reason in self.reasons.values() if reason.key.protocol == "tcp"
            )
            return [
                Query(family, protocol, is_unanswered=protocol == "tcp" and is_of_attempts)
                for family in self._settings.families
                for protocol in ("udp", "tcp", "sctp")
            ]
        reasons = sorted(self.reasons.values(), key=lambda reason: reason.key)
        queries = _unique(query for reason in reasons for query in _by_reply_source(reason))
        if len(queries) > MAX_QUERIES:
            queries = _unique(
                Query(s.key.family, s.key.protocol, s.destination, is_unanswered=s.is_of_attempts) for s in reasons
            )
        if len(queries) > MAX_QUERIES:
            queries = _unique(Query(s.key.family, s.key.protocol, is_unanswered=s.is_of_attempts) for s in reasons)
        return queries

    def is_stale(self, protocol: str, flow: Flow) -> bool:
        """Return whether a flow of that protocol is stale."""
        key, frontend = self._frontend_of(FrontendKey(flow.destination[0], protocol, flow.destination[1]))
        reason = self.reasons.get(key)
        if reason is None and not self.is_everything:
            return False
        if flow.reply_source in self._listeners:
            return False
        if frontend is not None and flow.reply_source in self._good(frontend):
            return False
        if flow.reply_source == flow.destination:
            # Other conntrack zones have flows of programs that track without translating, such as Open vSwitch.
            is_late = self.is_everything or (reason is not None and reason.untranslated)
            return (
                protocol == "udp"
                and is_late
                and flow.zone == 0
                and frontend is not None
                and bool(backends_of(frontend))
            )
        if reason is not None:
            if flow.reply_source in reason.departed:
                return frontend is not None
            if reason.gone is not None and flow.reply_source in reason.gone:
                return protocol == "udp" or (frontend is not None and not flow.is_established)
        if frontend is not None and (self.is_everything or (reason is not None and reason.gone is None)):
            return protocol == "udp" or not flow.is_established
        return protocol == "udp" and self.is_everything and _is_in(key.address, self._service_ranges)

    def _frontend_of(self, key: FrontendKey) -> tuple[FrontendKey, Frontend | None]:
        """Return the Frontend that a destination reaches: a Frontend of that address precedes node ports."""
        frontend = self._table.get(key)
        if frontend is None and key not in self.reasons:
            node_port = FrontendKey(ANY_LOCAL[key.family], key.protocol, key.port)
            frontend_of_port = self._table.get(node_port)
            if (frontend_of_port is not None or node_port in self.reasons) and self._has_node_ports(key.address):
                return node_port, frontend_of_port
        return key, frontend

    def _has_node_ports(self, address: str) -> bool:
        if ipaddress.ip_address(address).is_loopback:
            return False
        ranges = self._node_port_ranges
        return (ranges is None or _is_in(address, ranges)) and self._is_local(address)

    def _good(self, frontend: Frontend) -> frozenset[AddressPort]:
        """Return where the Frontend's flows may lead: all serving endpoints of its Service, not only selected ones."""
        namespace, _, rest = frontend.owner.partition("/")
        known = self._known.get(ObjectKey(namespace, rest.rpartition(":")[0]), {})
        return known.get(port_of(frontend), frozenset()) | backends_of(frontend)


_Networks = list[ipaddress.IPv4Network | ipaddress.IPv6Network]


def _networks(cidrs: Iterable[str]) -> _Networks:
    return [ipaddress.ip_network(text) for text in cidrs]


def _is_in(address: str, networks: _Networks) -> bool:
    return any(ipaddress.ip_address(address) in network for network in networks)


def _unique(queries: Iterable[Query]) -> list[Query]:
    """Return each query once, without those for attempts that another query includes."""
    found = dict.fromkeys(queries)
    return [q for q in found if not q.is_unanswered or q._replace(is_unanswered=False) not in found]


def _by_reply_source(reason: StaleReason) -> Iterator[Query]:
    key, destination = reason.key, reason.destination
    if reason.gone is None:
        yield Query(key.family, key.protocol, destination)
        return
    if reason.untranslated:
        yield Query(key.family, key.protocol, destination, destination)
    for backend in sorted(reason.gone):
        yield Query(key.family, key.protocol, ANYWHERE, backend, key.protocol == "tcp")
    for backend in sorted(reason.departed):
        yield Query(key.family, key.protocol, ANYWHERE, backend)
