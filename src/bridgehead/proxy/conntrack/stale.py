"""Decide which flows in the kernel are stale: they lead to a backend that is gone, and have to be removed.

Connection tracking sends every packet of a flow to where its first packet went, whatever the rules are by now.
`reconciler.py` records changes here, asks what to list and when, and removes the stale flows. docs/decisions/0012 has
the reasons. Stale are:

- UDP, whose clients never notice: flows to an endpoint that no longer serves, flows through a deleted Frontend, and
  flows that were never translated because their Frontend was created later. Draining endpoints are good.
- TCP and SCTP, whose clients mostly notice: flows without a living connection, to an endpoint that has left all slices
  (unanswered attempts, and ended SCTP associations, whose flow a new one from the same port would use); and flows to a
  pod that was observed terminating and then left all slices: that pod has ended, and the client's next packet is
  rejected instead of lost. No other flows, even if the Service is deleted.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.addresses import AddressPort, Family, canonical_address, family_of
from bridgehead.proxy.changes import FrontendTable, Update
from bridgehead.proxy.frontends import ANY_LOCAL, Backend, Frontend, FrontendKey, ServiceFrontends
from bridgehead.proxy.mode import Settings

ANYWHERE: AddressPort = ("", 0)

MAX_QUERIES = 4  # the kernel walks all its flows for each query, so more queries are combined to fewer

# A packet that met the old rules may create its flow after the first scan, mostly within milliseconds.
SECOND_SCAN_SECONDS = 0.2
LAST_SCAN_SECONDS = 2.0
# Clients repeat an unanswered packet after a second.
UNANSWERED_SECONDS = 0.7
# An endpoint that moves from slice to slice may be in no slice for a moment.
DEPARTED_SECONDS = 5.0


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


class _Port(NamedTuple):
    """A port of a Service in one family; `owner` is as in Frontends."""

    owner: str
    protocol: str
    family: Family


@dataclass(frozen=True)
class _StaleReason:
    """The possible reasons why flows of one Frontend are stale.

    `gone`: they lead to one of these endpoints (None: to any that does not serve); of TCP and SCTP, only flows that
    are not established are stale. `departed`: they lead to one of these ended pods. `untranslated`: they were not
    translated.
    """

    key: FrontendKey
    gone: frozenset[AddressPort] | None = frozenset()
    departed: frozenset[AddressPort] = frozenset()
    untranslated: bool = False

    def __bool__(self) -> bool:
        return self.gone is None or bool(self.gone or self.departed) or self.untranslated

    def merged(self, other: _StaleReason | None) -> _StaleReason:
        if other is None:
            return self
        return _StaleReason(
            self.key,
            None if self.gone is None or other.gone is None else self.gone | other.gone,
            self.departed | other.departed,
            self.untranslated or other.untranslated,
        )

    @property
    def is_of_attempts(self) -> bool:
        """Whether only flows without a reply can be stale. An ended SCTP association had replies."""
        return self.key.protocol == "tcp" and not self.departed

    @property
    def destination(self) -> AddressPort:
        """The destination address of its flows; "": any."""
        return "" if self.key.is_node_port else self.key.address, self.key.port


class StaleFlows:
    """The serving endpoints of every UDP Service, the terminating ones of all others, and the scans that are due.

    The first scan includes all flows: backends may have gone while no proxy ran. Times are seconds of any one clock.
    """

    def __init__(self) -> None:
        # UDP: the serving endpoints. Other protocols: the terminating ones; without any, the port is absent.
        self._known: dict[ObjectKey, dict[_Port, frozenset[AddressPort]]] = {}
        self._recorded: list[tuple[float, _StaleReason]] = []  # with the seconds from the change to the scan
        self._due: list[tuple[float, _StaleReason]] = []
        self._all_due: list[float] = []
        # Ended pods whose scan is not due yet. An endpoint that returns meanwhile is another pod.
        self._departed: dict[FrontendKey, frozenset[AddressPort]] = {}
        self._settings: Settings | None = None

    def record(
        self,
        service: ObjectKey,
        compiled: ServiceFrontends | None,
        slices: Iterable[EndpointSlice],
        update: Update,
    ) -> None:
        """Record a compiled Service, all its slices, and what changed in the table. The kernel may not have it yet."""
        before = self._known.pop(service, {})
        ports: dict[_Port, list[FrontendKey]] = {}
        for frontend in compiled.frontends if compiled is not None else ():
            ports.setdefault(_port_of(frontend), []).append(frontend.key)
        endpoints = _Endpoints(slices)
        known = {}
        for port, keys in ports.items():
            current = endpoints.serving(port) if port.protocol == "udp" else endpoints.terminating(port)
            left = _addressed(before.get(port, frozenset()) - current, port.family)
            if current or port.protocol == "udp":
                known[port] = current
            if left and port.protocol == "udp":
                self._add_reasons(*(_StaleReason(key, gone=left) for key in keys))
            elif port.protocol != "udp":
                self._record_departures(port, keys, left, endpoints)
        if known:
            self._known[service] = known
        for old, new in update.changes:
            self._record_change(old, new, before, endpoints)

    def _record_departures(
        self, port: _Port, keys: Sequence[FrontendKey], left: frozenset[AddressPort], endpoints: _Endpoints
    ) -> None:
        """Record ended pods of a port that is not UDP; `left` are no longer terminating."""
        for key in keys if self._departed else ():
            waiting = self._departed.pop(key, None)
            waiting = endpoints.absent(port, waiting) if waiting else None
            if waiting:
                self._departed[key] = waiting
        departed = endpoints.absent(port, left) if left else None
        if departed:
            for key in keys:
                self._departed[key] = self._departed.get(key, frozenset()) | departed
                self._add_reasons(_StaleReason(key, departed=departed))

    def _record_change(
        self,
        old: Frontend | None,
        new: Frontend | None,
        before: Mapping[_Port, frozenset[AddressPort]],
        endpoints: _Endpoints,
    ) -> None:
        either = new or old
        if either is None:
            return
        port = _port_of(either)
        if port.protocol != "udp":
            if old is not None and new is not None and old.owner == new.owner:
                lost = _lost(old.backends, new.backends) | _lost(old.cluster_backends or (), new.cluster_backends or ())
                gone = endpoints.absent(port, lost) if lost else None
                if gone:
                    self._add_reasons(_StaleReason(new.key, gone=gone))
        elif new is None:
            self._add_reasons(
                _StaleReason(
                    either.key, gone=_addressed(before.get(port, frozenset()), port.family) | _backends(either)
                )
            )
        elif old is not None and old.owner != new.owner:
            self._add_reasons(_StaleReason(new.key, gone=None, untranslated=True))
        elif _backends(new) and (old is None or not _backends(old)):
            self._add_reasons(_StaleReason(new.key, untranslated=True))

    def _add_reasons(self, *reasons: _StaleReason) -> None:
        for reason in reasons:
            if reason.departed:
                self._recorded.append((DEPARTED_SECONDS, reason))
            elif reason.key.protocol == "udp":
                self._recorded += ((seconds, reason) for seconds in (0.0, SECOND_SCAN_SECONDS, LAST_SCAN_SECONDS))
            else:
                self._recorded.append((UNANSWERED_SECONDS, reason))

    def on_programmed(self, settings: Settings, now: float) -> None:
        """Record that the kernel has the recorded changes."""
        if settings != self._settings:
            self._settings = settings
            self._all_due = [now, now + LAST_SCAN_SECONDS]
        self._due += ((now + seconds, reason) for seconds, reason in self._recorded)
        self._recorded.clear()

    def next_due(self) -> float | None:
        """Return when the next scan is due; None: none is."""
        return min((*self._all_due, *(due for due, _ in self._due)), default=None)

    def take(self, table: FrontendTable, now: float, node: NodeAddresses) -> Scan | None:
        """Return the scan that is due by now and forget its reasons; None: none is due."""
        due = [self._confirm(reason) for time, reason in self._due if time <= now]
        is_everything = any(time <= now for time in self._all_due)
        if self._settings is None or not (due or is_everything):
            return None
        self._due = [(time, reason) for time, reason in self._due if time > now]
        self._all_due = [time for time in self._all_due if time > now]
        return Scan(due, self._settings, table, self._known, node, is_everything=is_everything)

    def _confirm(self, reason: _StaleReason) -> _StaleReason:
        """Return the reason without ended pods whose address another pod has, and end the wait for the others."""
        if not reason.departed:
            return reason
        waiting = self._departed.pop(reason.key, frozenset())
        if waiting - reason.departed:
            self._departed[reason.key] = waiting - reason.departed
        return dataclasses.replace(reason, departed=waiting & reason.departed)

    def put_back(self, scan: Scan, when: float) -> None:
        """Make the reasons of a failed scan due again."""
        self._due += ((when, reason) for reason in scan.reasons.values())
        for key, reason in scan.reasons.items():
            if reason.departed:
                self._departed[key] = self._departed.get(key, frozenset()) | reason.departed
        if scan.is_everything:
            self._all_due.append(when)


class Scan:
    """One scan of the kernel's flows: what to list, and which of the listed flows are stale.

    `is_stale` may be called in another thread while the table changes. A decision on a newer state than the kernel's is
    made again when the kernel has that state.
    """

    def __init__(
        self,
        reasons: Iterable[_StaleReason],
        settings: Settings,
        table: FrontendTable,
        known: Mapping[ObjectKey, Mapping[_Port, frozenset[AddressPort]]],
        node: NodeAddresses,
        *,
        is_everything: bool,
    ) -> None:
        self.reasons: dict[FrontendKey, _StaleReason] = {}
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
                protocol == "udp" and is_late and flow.zone == 0 and frontend is not None and bool(_backends(frontend))
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
        return known.get(_port_of(frontend), frozenset()) | _backends(frontend)


_Networks = list[ipaddress.IPv4Network | ipaddress.IPv6Network]


def _networks(cidrs: Iterable[str]) -> _Networks:
    return [ipaddress.ip_network(text) for text in cidrs]


def _is_in(address: str, networks: _Networks) -> bool:
    return any(ipaddress.ip_address(address) in network for network in networks)


def _unique(queries: Iterable[Query]) -> list[Query]:
    """Return each query once, without those for attempts that another query includes."""
    found = dict.fromkeys(queries)
    return [q for q in found if not q.is_unanswered or q._replace(is_unanswered=False) not in found]


def _by_reply_source(reason: _StaleReason) -> Iterator[Query]:
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


def _port_of(frontend: Frontend) -> _Port:
    return _Port(frontend.owner, frontend.key.protocol, frontend.key.family)


def _addressed(endpoints: frozenset[AddressPort], family: Family) -> frozenset[AddressPort]:
    """Return the endpoints with a valid address of the family: the kernel can list no others."""
    canonical = {endpoint: canonical_address(endpoint[0]) for endpoint in endpoints}
    return frozenset(endpoint for endpoint, text in canonical.items() if text is not None and family_of(text) == family)


def _backends(frontend: Frontend) -> frozenset[AddressPort]:
    return frozenset(
        (backend.address, backend.port) for backend in (*frontend.backends, *(frontend.cluster_backends or ()))
    )


def _lost(old: Sequence[Backend], new: Sequence[Backend]) -> set[AddressPort]:
    """Return the backends that were removed. Backends keep their index (`changes.arrange`), so few must be hashed."""
    pairs = [(before, after) for before, after in zip(old, new, strict=False) if before != after]
    stayed = {(b.address, b.port) for b in (*(after for _, after in pairs), *new[len(old) :])}
    return {(b.address, b.port) for b in (*(before for before, _ in pairs), *old[len(new) :])} - stayed


class _Endpoints:
    """The endpoints in a Service's slices, by port. Read lazily: there may be thousands."""

    def __init__(self, slices: Iterable[EndpointSlice]) -> None:
        self._slices = tuple(slices)
        self._has_terminating: bool | None = None

    def serving(self, port: _Port) -> frozenset[AddressPort]:
        return frozenset(self._find(port, _is_serving))

    def terminating(self, port: _Port) -> frozenset[AddressPort]:
        if self._has_terminating is None:
            self._has_terminating = any(e.conditions.is_terminating for s in self._slices for e in s.endpoints)
        return frozenset(self._find(port, _is_terminating)) if self._has_terminating else frozenset()

    def absent(self, port: _Port, endpoints: AbstractSet[AddressPort]) -> frozenset[AddressPort]:
        """Return the endpoints that are in no slice, whatever their conditions."""
        addresses = {address for address, _ in endpoints}
        return frozenset(endpoints) - set(self._find(port, lambda _, address: address in addresses))

    def _find(self, port: _Port, is_wanted: Callable[[Endpoint, str], bool]) -> Iterator[AddressPort]:
        name, protocol = port.owner.rpartition(":")[2], port.protocol.upper()
        address_type = f"IPv{port.family}"
        for slice_ in self._slices:
            numbers = [
                p.port for p in slice_.ports or () if slice_.address_type == address_type
                and p.port is not None and p.key == (name, protocol)
            ]  # fmt: skip
            for endpoint in slice_.endpoints if numbers else ():
                address = endpoint.first_address
                if address is None:
                    continue
                if ":" in address:  # IPv4 addresses are canonical or invalid
                    address = canonical_address(address) or ""
                if is_wanted(endpoint, address):
                    for number in numbers:
                        yield address, number


def _is_serving(endpoint: Endpoint, _: str) -> bool:
    return endpoint.conditions.is_usable


def _is_terminating(endpoint: Endpoint, _: str) -> bool:
    return endpoint.conditions.is_terminating
