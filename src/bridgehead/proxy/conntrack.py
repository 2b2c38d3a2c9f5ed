"""Which UDP flows in the kernel lead to a backend that is gone, so that they have to be removed. Pure.

Connection tracking sends every packet of a flow where its first one went. A TCP client notices when nobody is there any
more and connects anew; a UDP client goes on sending, and its packets keep the entry alive. `flows.py` tells what
changed, asks what to list, and removes what is found stale. Most changes ask for no look at all.

As in kube-proxy (pkg/proxy/conntrack): UDP only; flows to endpoints that terminate but still serve are good.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from bridgehead.objects.discovery import EndpointSlice
from bridgehead.objects.meta import ObjectKey

from .changes import FrontendTable, Update
from .frontends import ANY_LOCAL, Family, Frontend, FrontendKey, ServiceFrontends, canonical_address, family_of

Place = tuple[str, int]  # canonical address, port

LISTED_ONE_BY_ONE = 4  # for more suspects, all UDP flows of their families are listed once


class Flow(Protocol):
    """What has to be known of a flow; see `network.conntrack.Flow`."""

    @property
    def destination(self) -> Place: ...
    @property
    def answerer(self) -> Place: ...
    @property
    def is_translated(self) -> bool: ...


AnyFlow = TypeVar("AnyFlow", bound=Flow)


class Query(NamedTuple):
    """UDP flows to list: all of a family, or those to an address (unless it is "") and port (unless it is 0)."""

    family: Family
    address: str = ""
    port: int = 0


class StaleFlows:
    """Remembers what every UDP Service serves, and which Frontends have to be looked at.

    A new one suspects everything: backends may have gone while no proxy ran.
    """

    def __init__(self) -> None:
        self._serving: dict[ObjectKey, frozenset[Place]] = {}  # of Services that have UDP Frontends
        self._suspects: set[FrontendKey] = set()
        self._suspects_all = True

    def note(
        self,
        service: ObjectKey,
        compiled: ServiceFrontends | None,
        slices: Iterable[EndpointSlice],
        update: Update,
    ) -> None:
        """A Service was compiled from all its slices, and this is what that changed."""
        for old, new in update.changes:
            either = new or old
            if either is not None and either.key.protocol == "udp" and _begins_or_ends(old, new):
                self._suspects.add(either.key)
        before = self._serving.pop(service, frozenset())
        mine = [f.key for f in compiled.frontends if f.key.protocol == "udp"] if compiled is not None else []
        if mine:
            serving = frozenset(_serving(slices))
            self._serving[service] = serving
            if before - serving:
                self._suspects.update(mine)

    def queries(self, families: Iterable[Family]) -> Sequence[Query]:
        """What to list now; nothing when nothing is suspected. `families`: those this node has."""
        if self._suspects_all:
            return [Query(family) for family in families]
        if len(self._suspects) > LISTED_ONE_BY_ONE:
            return [Query(family) for family in sorted({key.family for key in self._suspects})]
        return [Query(key.family, "" if key.is_node_port else key.address, key.port) for key in sorted(self._suspects)]

    def stale(
        self,
        flows: Iterable[AnyFlow],
        table: FrontendTable,
        *,
        service_cidrs: Sequence[str] = (),
        is_local: Callable[[str], bool],
    ) -> list[AnyFlow]:
        """Those of the flows that have to go. `is_local` tells the addresses of this node, which have node ports."""
        ranges = [ipaddress.ip_network(text) for text in service_cidrs] if self._suspects_all else []
        local: dict[str, bool] = {}
        good: dict[FrontendKey, frozenset[Place]] = {}
        found = []
        for flow in flows:
            address, port = flow.destination
            key = FrontendKey(address, "udp", port)
            frontend = table.get(key)
            if frontend is None and not self._is_suspect(key):
                node_port = FrontendKey(ANY_LOCAL[family_of(address)], "udp", port)
                if node_port in self._suspects or table.get(node_port) is not None:
                    if address not in local:
                        local[address] = is_local(address)
                    if local[address]:
                        key, frontend = node_port, table.get(node_port)
            if frontend is not None:
                if key not in good:
                    good[key] = self._good(frontend)
                is_stale = self._is_suspect(key) and flow.answerer not in good[key]
            else:
                # Of a Frontend that is gone, what was never translated is none of ours.
                is_gone = key in self._suspects or any(ipaddress.ip_address(address) in range_ for range_ in ranges)
                is_stale = is_gone and flow.is_translated
            if is_stale:
                found.append(flow)
        return found

    def settled(self) -> None:
        """What was stale is removed: nothing is suspected any more."""
        self._suspects.clear()
        self._suspects_all = False

    def _is_suspect(self, key: FrontendKey) -> bool:
        return self._suspects_all or key in self._suspects

    def _good(self, frontend: Frontend) -> frozenset[Place]:
        """Where the Frontend's flows may lead: what its Service serves, whatever policies choose for new ones."""
        namespace, _, rest = frontend.owner.partition("/")
        serving = self._serving.get(ObjectKey(namespace, rest.rpartition(":")[0]), frozenset())
        return serving | _chosen(frontend)


def _begins_or_ends(old: Frontend | None, new: Frontend | None) -> bool:
    """Whether flows from before are wrong as a whole: there was no backend, is no Frontend, or it is another's."""
    if new is None:
        return True
    if old is None or not _chosen(old):
        return bool(_chosen(new))
    return old.owner != new.owner


def _chosen(frontend: Frontend) -> frozenset[Place]:
    return frozenset((backend.address, backend.port) for backend in (*frontend.backends, *(frontend.inside or ())))


def _serving(slices: Iterable[EndpointSlice]) -> Iterable[Place]:
    for slice_ in slices:
        ports = [port.port for port in slice_.ports or () if port.protocol == "UDP" and port.port is not None]
        for endpoint in slice_.endpoints if ports else ():
            conditions = endpoint.conditions
            is_draining = conditions.terminating is True and conditions.serving is not False
            if endpoint.addresses and (conditions.ready is not False or is_draining):
                address = canonical_address(endpoint.addresses[0])
                if address is not None:
                    yield from ((address, port) for port in ports)
