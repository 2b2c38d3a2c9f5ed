"""Decide which flows in the kernel are stale: they lead to a backend that is gone, and have to be removed.

Connection tracking sends every packet of a flow to where its first packet went, whatever the rules are by now.
`reconciler.py` records changes here, asks what to list and when, and removes the stale flows. docs/decisions/0012 has
the reasons. Stale are:

- UDP, whose clients never notice: flows to an endpoint that no longer serves, flows through a deleted Frontend, and
  flows that were never translated because their Frontend was created later. Draining endpoints are good.
- TCP and SCTP, whose clients mostly notice: flows without a living connection, to an endpoint that has left all slices
  (unanswered attempts, and ended SCTP associations, whose flow a new one from the same port would use); and flows to a
  pod that was observed terminating and then left all slices: that pod has ended, and the client's next packet is
  rejected instead of lost. All other flows stay, even if the Service is deleted.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import AddressPort, canonical_address
from bridgehead.proxy.frontend_table import FrontendTable, Update
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, ServiceFrontends
from bridgehead.proxy.mode import Settings

from .reasons import ServicePort, StaleReason, addressed, backends_of, port_of
from .scan import NodeAddresses, Scan

# A packet that met the old rules may create its flow after the first scan, mostly within milliseconds.
SECOND_SCAN_SECONDS = 0.2
LAST_SCAN_SECONDS = 2.0
# Clients repeat an unanswered packet after a second.
UNANSWERED_SECONDS = 0.7
# An endpoint that moves from slice to slice may be in no slice for a moment.
DEPARTED_SECONDS = 5.0


class StaleFlows:
    """The serving endpoints of every UDP Service, the terminating ones of all others, and the scans that are due.

    The first scan includes all flows: backends may have gone while no proxy ran. Times are seconds of any one clock.
    """

    def __init__(self) -> None:
        # UDP: the serving endpoints. Other protocols: the terminating ones; without any, the port is absent.
        self._known: dict[ObjectKey, dict[ServicePort, frozenset[AddressPort]]] = {}
        self._recorded: list[tuple[float, StaleReason]] = []  # with the seconds from the change to the scan
        self._due: list[tuple[float, StaleReason]] = []
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
        before = self._known.get(service, {})
        ports: dict[ServicePort, list[FrontendKey]] = {}
        for frontend in compiled.frontends if compiled is not None else ():
            ports.setdefault(port_of(frontend), []).append(frontend.key)
        endpoints = SliceEndpoints(slices)
        known = {}
        for port, keys in ports.items():
            current = endpoints.serving(port) if port.protocol == "udp" else endpoints.terminating(port)
            left = addressed(before.get(port, frozenset()) - current, port.family)
            if current or port.protocol == "udp":
                known[port] = current
            if left and port.protocol == "udp":
                self._add_reasons(*(StaleReason(key, gone=left) for key in keys))
            elif port.protocol != "udp":
                self._record_departures(port, keys, left, endpoints)
        # The change is one step: a scan may read it in another thread, and would take good flows for stale ones in
        # between.
        if known:
            self._known[service] = known
        else:
            self._known.pop(service, None)
        for old, new in update.changes:
            self._record_change(old, new, before, endpoints)

    def _record_departures(
        self, port: ServicePort, keys: Sequence[FrontendKey], left: frozenset[AddressPort], endpoints: SliceEndpoints
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
                self._add_reasons(StaleReason(key, departed=departed))

    def _record_change(
        self,
        old: Frontend | None,
        new: Frontend | None,
        before: Mapping[ServicePort, frozenset[AddressPort]],
        endpoints: SliceEndpoints,
    ) -> None:
        either = new or old
        if either is None:
            return
        port = port_of(either)
        if port.protocol != "udp":
            if old is not None and new is not None and old.owner == new.owner:
                lost = _lost(old.backends, new.backends) | _lost(old.cluster_backends or (), new.cluster_backends or ())
                gone = endpoints.absent(port, lost) if lost else None
                if gone:
                    self._add_reasons(StaleReason(new.key, gone=gone))
        elif new is None:
            self._add_reasons(
                StaleReason(
                    either.key, gone=addressed(before.get(port, frozenset()), port.family) | backends_of(either)
                )
            )
        elif old is not None and old.owner != new.owner:
            self._add_reasons(StaleReason(new.key, gone=None, untranslated=True))
        elif backends_of(new) and (old is None or not backends_of(old)):
            self._add_reasons(StaleReason(new.key, untranslated=True))

    def _add_reasons(self, *reasons: StaleReason) -> None:
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

    def _confirm(self, reason: StaleReason) -> StaleReason:
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


def _lost(old: Sequence[Backend], new: Sequence[Backend]) -> set[AddressPort]:
    """Return the backends that were removed. Backends keep their index (`changes.arrange`), so few must be hashed."""
    pairs = [(before, after) for before, after in zip(old, new, strict=False) if before != after]
    stayed = {(b.address, b.port) for b in (*(after for _, after in pairs), *new[len(old) :])}
    return {(b.address, b.port) for b in (*(before for before, _ in pairs), *old[len(new) :])} - stayed


class SliceEndpoints:
    """The endpoints in a Service's slices, by port. Read lazily: there may be thousands."""

    def __init__(self, slices: Iterable[EndpointSlice]) -> None:
        self._slices = tuple(slices)
        self._has_terminating: bool | None = None

    def serving(self, port: ServicePort) -> frozenset[AddressPort]:
        return frozenset(self._find(port, _is_serving))

    def terminating(self, port: ServicePort) -> frozenset[AddressPort]:
        if self._has_terminating is None:
            self._has_terminating = any(e.conditions.is_terminating for s in self._slices for e in s.endpoints)
        return frozenset(self._find(port, _is_terminating)) if self._has_terminating else frozenset()

    def absent(self, port: ServicePort, endpoints: AbstractSet[AddressPort]) -> frozenset[AddressPort]:
        """Return the endpoints that are in no slice, whatever their conditions."""
        addresses = {address for address, _ in endpoints}
        return frozenset(endpoints) - set(self._find(port, lambda _, address: address in addresses))

    def _find(self, port: ServicePort, is_wanted: Callable[[Endpoint, str], bool]) -> Iterator[AddressPort]:
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
