"""Which flows in the kernel lead to a backend that is gone, so that they have to be removed. Pure.

Connection tracking sends every packet of a flow where its first one went, whatever rules say by now. `keeper.py` tells
what changed, asks what to list and when, and removes what is found stale. docs/decisions/0012 has the reasons:

- UDP, whose clients never notice: what leads to an endpoint that does not serve any more, or through a Frontend that is
  gone, or was never translated since its Frontend came later. Endpoints that terminate but still serve are good.
- TCP and SCTP, whose clients mostly do: attempts to connect that nobody answers and whose endpoint has left all slices;
  and what leads to a pod that was seen terminating and then left: that one is no more. Its client is refused with its
  next packet, instead of sending into the void. Nothing else, even when the Service is deleted.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bridgehead.objects.discovery import Endpoint, EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.addresses import Family, canonical_address, family_of
from bridgehead.proxy.changes import FrontendTable, Update
from bridgehead.proxy.frontends import ANY_LOCAL, Backend, Frontend, FrontendKey, ServiceFrontends
from bridgehead.proxy.mode import Settings

Place = tuple[str, int]  # canonical address, port
ANYWHERE: Place = ("", 0)

LISTED_ONE_BY_ONE = 4  # the kernel walks all its flows for each question, so many are asked as few

# A packet that met the old rules may leave its flow behind after the first look; mostly at once, if at all.
SECOND_LOOK_SECONDS = 0.2
LAST_LOOK_SECONDS = 2.0
# Clients repeat what nobody answered after a second.
UNANSWERED_SECONDS = 0.7
# An endpoint that moves from slice to slice may be in none of them for a moment.
DEPARTED_SECONDS = 5.0


class Flow(Protocol):
    """What has to be known of a flow; see `network.conntrack.Flow`."""

    @property
    def destination(self) -> Place: ...
    @property
    def answerer(self) -> Place: ...
    @property
    def is_answered(self) -> bool: ...
    @property
    def zone(self) -> int: ...


class Query(NamedTuple):
    """Flows to list: of a protocol, to a destination, answered from a place. "" is any address, 0 any port."""

    family: Family
    protocol: str
    destination: Place = ANYWHERE
    answerer: Place = ANYWHERE
    is_unanswered: bool = False


class NodeAddresses(NamedTuple):
    """`is_local` tells the addresses of this node, which may have node ports.

    `listeners` are where the proxy itself listens now, if its mode does: what leads there is good.
    """

    is_local: Callable[[str], bool]
    listeners: Callable[[], Collection[Place]] = tuple


class _Port(NamedTuple):
    """A port of a Service in one family; `owner` is as in Frontends."""

    owner: str
    protocol: str
    family: Family


@dataclass(frozen=True)
class _Suspicion:
    """What may be wrong with flows of one Frontend.

    They may lead to `gone` (None: to anywhere but what serves), where of TCP and SCTP only attempts count; to
    `departed`; or nowhere, since they were not translated.
    """

    key: FrontendKey
    gone: frozenset[Place] | None = frozenset()
    departed: frozenset[Place] = frozenset()
    untranslated: bool = False

    def __bool__(self) -> bool:
        return self.gone is None or bool(self.gone or self.departed) or self.untranslated

    def merged(self, other: _Suspicion | None) -> _Suspicion:
        if other is None:
            return self
        return _Suspicion(
            self.key,
            None if self.gone is None or other.gone is None else self.gone | other.gone,
            self.departed | other.departed,
            self.untranslated or other.untranslated,
        )

    @property
    def is_of_attempts(self) -> bool:
        return self.key.protocol != "udp" and not self.departed

    @property
    def place(self) -> Place:
        """The destination of its flows."""
        return "" if self.key.is_node_port else self.key.address, self.key.port


class StaleFlows:
    """Remembers what every UDP Service serves and who is terminating, and what has to be looked at when.

    A new one suspects everything: backends may have gone while no proxy ran. Times are seconds of any one clock.
    """

    def __init__(self) -> None:
        # UDP: the serving endpoints. Others: those that terminate, so nearly always none; absent then.
        self._known: dict[ObjectKey, dict[_Port, frozenset[Place]]] = {}
        self._noted: list[tuple[float, _Suspicion]] = []  # and how long after its change to look
        self._due: list[tuple[float, _Suspicion]] = []
        self._all_due: list[float] = []
        # Of pods that are no more, those that wait for their look. Who comes back meanwhile is another one.
        self._departed: dict[FrontendKey, frozenset[Place]] = {}
        self._settings: Settings | None = None

    def note(
        self,
        service: ObjectKey,
        compiled: ServiceFrontends | None,
        slices: Iterable[EndpointSlice],
        update: Update,
    ) -> None:
        """A Service was compiled from all its slices, and this is what that changed. The kernel may not know yet."""
        before = self._known.pop(service, {})
        ports: dict[_Port, list[FrontendKey]] = {}
        for frontend in compiled.frontends if compiled is not None else ():
            ports.setdefault(_port_of(frontend), []).append(frontend.key)
        endpoints = _Endpoints(slices)
        known = {}
        for port, keys in ports.items():
            now = endpoints.serving(port) if port.protocol == "udp" else endpoints.terminating(port)
            left = _addressed(before.get(port, frozenset()) - now, port.family)
            if now or port.protocol == "udp":
                known[port] = now
            if left and port.protocol == "udp":
                self._suspect(*(_Suspicion(key, gone=left) for key in keys))
            elif port.protocol != "udp":
                self._note_departures(port, keys, left, endpoints)
        if known:
            self._known[service] = known
        for old, new in update.changes:
            self._note_change(old, new, before, endpoints)

    def _note_departures(
        self, port: _Port, keys: Sequence[FrontendKey], left: frozenset[Place], endpoints: _Endpoints
    ) -> None:
        """Of a port that is not UDP; `left` are not terminating any more."""
        for key in keys if self._departed else ():
            waiting = self._departed.pop(key, None)
            waiting = endpoints.absent(port, waiting) if waiting else None
            if waiting:
                self._departed[key] = waiting
        departed = endpoints.absent(port, left) if left else None
        if departed:
            for key in keys:
                self._departed[key] = self._departed.get(key, frozenset()) | departed
                self._suspect(_Suspicion(key, departed=departed))

    def _note_change(
        self,
        old: Frontend | None,
        new: Frontend | None,
        before: Mapping[_Port, frozenset[Place]],
        endpoints: _Endpoints,
    ) -> None:
        either = new or old
        if either is None:
            return
        port = _port_of(either)
        if port.protocol != "udp":
            if old is not None and new is not None and old.owner == new.owner:
                lost = _lost(old.backends, new.backends) | _lost(old.inside or (), new.inside or ())
                gone = endpoints.absent(port, lost) if lost else None
                if gone:
                    self._suspect(_Suspicion(new.key, gone=gone))
        elif new is None:
            self._suspect(
                _Suspicion(either.key, gone=_addressed(before.get(port, frozenset()), port.family) | _chosen(either))
            )
        elif old is not None and old.owner != new.owner:
            self._suspect(_Suspicion(new.key, gone=None, untranslated=True))
        elif _chosen(new) and (old is None or not _chosen(old)):
            self._suspect(_Suspicion(new.key, untranslated=True))

    def _suspect(self, *suspicions: _Suspicion) -> None:
        for suspicion in suspicions:
            if suspicion.departed:
                self._noted.append((DEPARTED_SECONDS, suspicion))
            elif suspicion.key.protocol == "udp":
                self._noted += ((seconds, suspicion) for seconds in (0.0, SECOND_LOOK_SECONDS, LAST_LOOK_SECONDS))
            else:
                self._noted.append((UNANSWERED_SECONDS, suspicion))

    def programmed(self, settings: Settings, now: float) -> None:
        """What was noted so far is in the kernel."""
        if settings != self._settings:
            self._settings = settings
            self._all_due = [now, now + LAST_LOOK_SECONDS]
        self._due += ((now + seconds, suspicion) for seconds, suspicion in self._noted)
        self._noted.clear()

    def next_due(self) -> float | None:
        """When there will be something to look at."""
        return min((*self._all_due, *(due for due, _ in self._due)), default=None)

    def take(self, table: FrontendTable, now: float, node: NodeAddresses) -> Look | None:
        """What is to be looked at by now, which from then on is not suspected any more."""
        due = [self._still(suspicion) for time, suspicion in self._due if time <= now]
        is_everything = any(time <= now for time in self._all_due)
        if self._settings is None or not (due or is_everything):
            return None
        self._due = [(time, suspicion) for time, suspicion in self._due if time > now]
        self._all_due = [time for time in self._all_due if time > now]
        return Look(due, self._settings, table, self._known, node, is_everything=is_everything)

    def _still(self, suspicion: _Suspicion) -> _Suspicion:
        """Without those pods whose places are taken again. The others do not wait any more."""
        if not suspicion.departed:
            return suspicion
        waiting = self._departed.pop(suspicion.key, frozenset())
        if waiting - suspicion.departed:
            self._departed[suspicion.key] = waiting - suspicion.departed
        return dataclasses.replace(suspicion, departed=waiting & suspicion.departed)

    def put_back(self, look: Look, when: float) -> None:
        """It could not be looked at."""
        self._due += ((when, suspicion) for suspicion in look.suspicions.values())
        for key, suspicion in look.suspicions.items():
            if suspicion.departed:
                self._departed[key] = self._departed.get(key, frozenset()) | suspicion.departed
        if look.is_everything:
            self._all_due.append(when)


class Look:
    """One look at the kernel's flows: what to list, and which of that has to go.

    `is_stale` may be called in another thread while the table goes on changing. What is decided upon a newer state than
    the kernel has is decided again, when the kernel has it.
    """

    def __init__(
        self,
        suspicions: Iterable[_Suspicion],
        settings: Settings,
        table: FrontendTable,
        known: Mapping[ObjectKey, Mapping[_Port, frozenset[Place]]],
        node: NodeAddresses,
        *,
        is_everything: bool,
    ) -> None:
        self.suspicions: dict[FrontendKey, _Suspicion] = {}
        self.is_everything = is_everything
        for suspicion in suspicions:
            if suspicion and suspicion.key.family in settings.families:
                self.suspicions[suspicion.key] = suspicion.merged(self.suspicions.get(suspicion.key))
        self._settings = settings
        self._table = table
        self._known = known
        self._is_local = node.is_local
        self._listeners = frozenset(node.listeners())
        self._service_ranges = _networks(settings.service_cidrs)
        self._node_port_ranges = None if settings.node_port_cidrs is None else _networks(settings.node_port_cidrs)

    def queries(self) -> Sequence[Query]:
        """What to list: as little as possible in few questions."""
        if self.is_everything:
            attempts = [("tcp", True), ("sctp", True)]
            departed = {suspicion.key.protocol for suspicion in self.suspicions.values() if suspicion.departed}
            return [
                Query(family, protocol, is_unanswered=is_unanswered and protocol not in departed)
                for family in self._settings.families
                for protocol, is_unanswered in (("udp", False), *attempts)
            ]
        suspicions = sorted(self.suspicions.values(), key=lambda suspicion: suspicion.key)
        queries = _unique(query for suspicion in suspicions for query in _by_answerer(suspicion))
        if len(queries) > LISTED_ONE_BY_ONE:
            queries = _unique(
                Query(s.key.family, s.key.protocol, s.place, is_unanswered=s.is_of_attempts) for s in suspicions
            )
        if len(queries) > LISTED_ONE_BY_ONE:
            queries = _unique(Query(s.key.family, s.key.protocol, is_unanswered=s.is_of_attempts) for s in suspicions)
        return queries

    def is_stale(self, protocol: str, flow: Flow) -> bool:
        """Whether a flow of that protocol has to go."""
        key, frontend = self._frontend_of(FrontendKey(flow.destination[0], protocol, flow.destination[1]))
        suspicion = self.suspicions.get(key)
        if suspicion is None and not self.is_everything:
            return False
        if flow.answerer in self._listeners:
            return False
        if frontend is not None and flow.answerer in self._good(frontend):
            return False
        if flow.answerer == flow.destination:
            # In other zones there are flows of programs that track what they do not translate, such as Open vSwitch.
            is_late = self.is_everything or (suspicion is not None and suspicion.untranslated)
            return protocol == "udp" and is_late and flow.zone == 0 and frontend is not None and bool(_chosen(frontend))
        if suspicion is not None:
            if flow.answerer in suspicion.departed:
                return frontend is not None
            if suspicion.gone is not None and flow.answerer in suspicion.gone:
                return protocol == "udp" or (frontend is not None and not flow.is_answered)
        if frontend is not None and (self.is_everything or (suspicion is not None and suspicion.gone is None)):
            return protocol == "udp" or not flow.is_answered
        return protocol == "udp" and self.is_everything and _is_in(key.address, self._service_ranges)

    def _frontend_of(self, key: FrontendKey) -> tuple[FrontendKey, Frontend | None]:
        """What packets of that destination meet: a Frontend's own address goes before node ports."""
        frontend = self._table.get(key)
        if frontend is None and key not in self.suspicions:
            node_port = FrontendKey(ANY_LOCAL[key.family], key.protocol, key.port)
            there = self._table.get(node_port)
            if (there is not None or node_port in self.suspicions) and self._has_node_ports(key.address):
                return node_port, there
        return key, frontend

    def _has_node_ports(self, address: str) -> bool:
        if ipaddress.ip_address(address).is_loopback:
            return False
        ranges = self._node_port_ranges
        return (ranges is None or _is_in(address, ranges)) and self._is_local(address)

    def _good(self, frontend: Frontend) -> frozenset[Place]:
        """Where the Frontend's flows may lead: what its Service serves, whatever policies choose for new ones."""
        namespace, _, rest = frontend.owner.partition("/")
        known = self._known.get(ObjectKey(namespace, rest.rpartition(":")[0]), {})
        return known.get(_port_of(frontend), frozenset()) | _chosen(frontend)


_Networks = list[ipaddress.IPv4Network | ipaddress.IPv6Network]


def _networks(cidrs: Iterable[str]) -> _Networks:
    return [ipaddress.ip_network(text) for text in cidrs]


def _is_in(address: str, networks: _Networks) -> bool:
    return any(ipaddress.ip_address(address) in network for network in networks)


def _unique(queries: Iterable[Query]) -> list[Query]:
    """Each once; one that asks for attempts only is answered by the same without that limit."""
    found = dict.fromkeys(queries)
    return [q for q in found if not q.is_unanswered or q._replace(is_unanswered=False) not in found]


def _by_answerer(suspicion: _Suspicion) -> Iterator[Query]:
    key, place = suspicion.key, suspicion.place
    if suspicion.gone is None:
        yield Query(key.family, key.protocol, place)
        return
    if suspicion.untranslated:
        yield Query(key.family, key.protocol, place, place)
    for backend in sorted(suspicion.gone):
        yield Query(key.family, key.protocol, ANYWHERE, backend, key.protocol != "udp")
    for backend in sorted(suspicion.departed):
        yield Query(key.family, key.protocol, ANYWHERE, backend)


def _port_of(frontend: Frontend) -> _Port:
    return _Port(frontend.owner, frontend.key.protocol, frontend.key.family)


def _addressed(places: frozenset[Place], family: Family) -> frozenset[Place]:
    """Those with an address of the family: of others the kernel cannot be asked. Looked at when they have left."""
    canonical = {place: canonical_address(place[0]) for place in places}
    return frozenset(place for place, text in canonical.items() if text is not None and family_of(text) == family)


def _chosen(frontend: Frontend) -> frozenset[Place]:
    return frozenset((backend.address, backend.port) for backend in (*frontend.backends, *(frontend.inside or ())))


def _lost(old: Sequence[Backend], new: Sequence[Backend]) -> set[Place]:
    """Who was there and is not any more. Backends keep their places (`changes.arrange`), so few have to be hashed."""
    pairs = [(before, after) for before, after in zip(old, new, strict=False) if before != after]
    stayed = {(b.address, b.port) for b in (*(after for _, after in pairs), *new[len(old) :])}
    return {(b.address, b.port) for b in (*(before for before, _ in pairs), *old[len(new) :])} - stayed


class _Endpoints:
    """The places in a Service's slices, of a port each. Read only as far as is asked for: there may be thousands."""

    def __init__(self, slices: Iterable[EndpointSlice]) -> None:
        self._slices = tuple(slices)
        self._has_terminating: bool | None = None

    def serving(self, port: _Port) -> frozenset[Place]:
        return frozenset(self._places(port, _is_serving))

    def terminating(self, port: _Port) -> frozenset[Place]:
        if self._has_terminating is None:
            self._has_terminating = any(e.conditions.terminating for s in self._slices for e in s.endpoints)
        return frozenset(self._places(port, _is_terminating)) if self._has_terminating else frozenset()

    def absent(self, port: _Port, places: AbstractSet[Place]) -> frozenset[Place]:
        """Those of the places that are in no slice, whatever their condition."""
        addresses = {address for address, _ in places}
        return frozenset(places) - set(self._places(port, lambda _, address: address in addresses))

    def _places(self, port: _Port, is_wanted: Callable[[Endpoint, str], bool]) -> Iterator[Place]:
        name, protocol = port.owner.rpartition(":")[2], port.protocol.upper()
        address_type = f"IPv{port.family}"
        for slice_ in self._slices:
            numbers = [
                p.port for p in slice_.ports or () if slice_.address_type == address_type
                and (p.name or "") == name and (p.protocol or "TCP") == protocol and p.port is not None
            ]  # fmt: skip
            for endpoint in slice_.endpoints if numbers else ():
                if not endpoint.addresses:
                    continue
                address = endpoint.addresses[0]
                if ":" in address:  # others have one spelling only; those that are no addresses lead nowhere
                    address = canonical_address(address) or ""
                if is_wanted(endpoint, address):
                    for number in numbers:
                        yield address, number


def _is_serving(endpoint: Endpoint, _: str) -> bool:
    return endpoint.conditions.is_ready or endpoint.conditions.is_draining


def _is_terminating(endpoint: Endpoint, _: str) -> bool:
    return endpoint.conditions.terminating is True
