"""The layer 2 announcer: takes addresses over, and gives them up, as `election.py` decides.

An address that moves away as planned is still answered for until its new holder has announced it (`_HANDOVER_SECONDS`
at most), so that no request remains unanswered in between; this node forwards what still arrives anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bridgehead.balancer.announcer import EventReport, Held, Observer, UpdateResult
from bridgehead.balancer.handovers import Handovers
from bridgehead.balancer.interface_names import link_names
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.network.link_states import Link, LinkStates
from bridgehead.objects.meta import ObjectKey

from .address_conflicts import PROBE_SECONDS, Conflicts
from .announcement_schedule import Schedule
from .election import Election, Holder
from .interfaces import DEFAULT_EXCLUDED, usable_links
from .responder import Responder
from .strict_arp import IPVS_LINK, ensure_strict_arp

log = logging.getLogger(__name__)

_HANDOVER_SECONDS: Final = 1.0  # in which the new holder announces the address; it takes a few milliseconds
_LOGGED_PER_SECOND: Final = 20
_ADDRESSES_AT_ONCE: Final = 50  # announced before the rest of the process gets its turn


@dataclass
class _Own:
    """An address that this node answers for. `gives_up_at`: the end of a handover to another node, or None."""

    holder: Holder
    since: float
    gives_up_at: float | None = None


class Layer2Announcer:
    """The `Announcer` of layer 2. `interfaces`: the only ones that are used; empty: all but the excluded ones.

    `serves_vrrp`: addresses that VRRP should announce are announced here, because nothing else can.
    """

    protocol = "layer2"

    def __init__(
        self,
        observer: Observer,
        handovers: Handovers,
        *,
        interfaces: Iterable[str] = (),
        serves_vrrp: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._observer = observer
        self._interfaces = frozenset(interfaces)
        self._excluded = DEFAULT_EXCLUDED
        self._states: LinkStates | None = None
        self._now = now
        self._view = ClusterView("")
        self._election = Election(serves_vrrp=serves_vrrp)
        self._own: dict[IpAddress, _Own] = {}
        self._schedule: Schedule[IpAddress] = Schedule()
        self._conflicts = Conflicts()
        self._handovers = handovers
        self._responder = Responder(self._on_conflict)
        self._wake = asyncio.Event()
        self._logged = 0, 0  # a second, and how many changes of it were logged
        self._is_running = self._has_ipvs = False
        self._used: frozenset[str] = frozenset()  # names of all interfaces so far

    @property
    def links(self) -> Collection[Link]:
        """The interfaces in use."""
        return self._responder.links.values()

    @property
    def responder(self) -> Responder:
        """The sockets, for metrics."""
        return self._responder

    # --- Decisions -----------------------------------------------------------------------------------------------

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> UpdateResult:
        old, self._view = self._view, view
        if publications:
            self._responder.listen()
        services: set[ObjectKey] = set()
        for address in self._election.update(view, publications, changed):
            services.update(self._election.services(address))
            own = self._own.get(address)
            if own is not None:
                services.add(own.holder.service)
            self._apply(address, self._election.get(address))
        self._handovers.apply()
        if view.members - old.members or (old.is_isolated and not view.is_isolated):
            # A node that was cut off, or that joined, may have answered for an address, or may have missed who does.
            self._announce_all()
        self._wake.set()
        return UpdateResult(services, list(self._unreachable(changed)) if self._is_running else ())

    def _apply(self, address: IpAddress, holder: Holder | None) -> None:
        own, this = self._own.get(address), self._view.this_node
        if holder is not None and holder.node == this:
            self._responder.hold(address, link_names(holder.interfaces))
            if own is None or own.gives_up_at is not None:
                self._handovers.begin(address, self._election.previous_node(address), self.protocol)
                self._own[address] = _Own(holder, self._now() if own is None else own.since)
                self._begin([address])
                self._log("announcing %s of %s (%s)", address, holder.service, holder.reason)
            else:
                if own.holder.interfaces != holder.interfaces:
                    self._begin([address])
                own.holder = holder
        elif own is not None and holder is not None and this in self._view.members:
            if own.gives_up_at is None:
                own.gives_up_at = time.monotonic() + _HANDOVER_SECONDS
                self._handovers.lose(address)
                self._schedule.stop(address)
                self._conflicts.release(address)
                self._log("handing %s of %s over to %s", address, own.holder.service, holder.node)
        elif own is not None:
            self._release(address)

    def _unreachable(self, services: Iterable[ObjectKey]) -> Iterator[EventReport]:
        """Yield Events about addresses that this node holds but has no interface for."""
        for service in services:
            for address in self._election.addresses(service):
                own = self._own.get(address)
                if own is not None and not self._responder.interfaces_of(address):
                    why = self._why_unreachable(own.holder)
                    message = f'failed to announce "{address}" with protocol "layer2": {why}'
                    yield EventReport(service, "Warning", "announceFailed", message)

    def _why_unreachable(self, holder: Holder) -> str:
        wanted = ", ".join(sorted(holder.interfaces or self._interfaces)) or "any"
        return f"no usable interface ({wanted})"

    def _release(self, address: IpAddress) -> None:
        own = self._own.pop(address)
        self._handovers.end(address, self.protocol)
        self._responder.release(address)
        self._schedule.stop(address)
        self._conflicts.release(address)
        self._log("no longer announcing %s of %s", address, own.holder.service)

    def _log(self, text: str, *values: object) -> None:
        """Log a change of one address, but no more than some in a second."""
        second = int(time.monotonic())
        since, count = self._logged
        self._logged = second, count + 1 if since == second else 1
        level = logging.INFO if self._logged[1] <= _LOGGED_PER_SECOND else logging.DEBUG
        if self._logged[1] == _LOGGED_PER_SECOND + 1:
            log.info("more addresses change in this second; -v logs each")
        log.log(level, text, *values)

    def _announce_all(self) -> None:
        self._begin([address for address, own in self._own.items() if own.gives_up_at is None])

    def _begin(self, addresses: Iterable[IpAddress]) -> None:
        now = time.monotonic()
        for address in addresses:
            self._conflicts.hold(address, now)
            self._schedule.begin([address], now)
        self._wake.set()

    def held(self, services: Collection[ObjectKey]) -> Collection[Held]:
        """Return the addresses that this node answers for, without those that are being handed over."""
        addresses = {address for service in services for address in self._election.addresses(service)}
        found = []
        for address in addresses & self._own.keys():
            own = self._own[address]
            if own.gives_up_at is not None:
                continue
            interfaces = tuple(self._responder.interfaces_of(address))
            why = own.holder.reason if interfaces else self._why_unreachable(own.holder)
            found += [
                Held(address, service, self.protocol, own.since, interfaces, why)
                for service in sorted(self._election.services(address))
                if service in services
            ]
        return found

    @property
    def is_handing_over(self) -> bool:
        """Whether an address still waits for its new holder."""
        return any(own.gives_up_at is not None for own in self._own.values())

    # --- The network ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.closing(self._responder), LinkStates() as states:
            self._states = states
            self._use_links(states)
            self._is_running = True
            loop.add_reader(states, self._on_links, states)
            try:
                while True:
                    self._give_up_late()
                    self._announce_due()
                    await self._sleep()
            finally:
                loop.remove_reader(states)
                self._states = None

    async def _sleep(self) -> None:
        """Wait for an update or the next deadline, and let the rest of the process have its turn in any case."""
        deadlines = [own.gives_up_at for own in self._own.values() if own.gives_up_at is not None]
        seconds = min([self._schedule.next_deadline(), *deadlines]) - time.monotonic()
        self._wake.clear()
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds if seconds < float("inf") else None):
                await self._wake.wait()

    def _announce_due(self) -> None:
        for due in self._schedule.due(time.monotonic(), _ADDRESSES_AT_ONCE):
            # A node that is cut off cannot know who holds the address by now, so it only answers who can reach it.
            if not self._view.is_isolated:
                self._responder.announce(due.item)
                if due.is_last:
                    self._responder.probe(due.item)

    def _give_up_late(self) -> None:
        now = time.monotonic()
        for address, own in list(self._own.items()):
            if own.gives_up_at is not None and now >= own.gives_up_at:
                self._log("%s was not announced by its new holder yet", address)
                self._release(address)
        self._handovers.apply()

    def _on_links(self, states: LinkStates) -> None:
        states.update()
        self._use_links(states)

    def set_excluded(self, excluded: re.Pattern[str] | None) -> None:
        """Set the names of the interfaces to leave out. None: `DEFAULT_EXCLUDED`."""
        self._excluded = excluded or DEFAULT_EXCLUDED
        if self._states is not None:
            self._use_links(self._states)

    def _use_links(self, states: LinkStates) -> None:
        has_ipvs = any(link.name == IPVS_LINK for link in states.all())
        if has_ipvs and not self._has_ipvs:
            ensure_strict_arp()
        self._has_ipvs = has_ipvs
        before = {link.name for link in self.links}
        if self._responder.set_links(usable_links(states.all(), self._interfaces, self._excluded)):
            for address, own in self._own.items():
                self._responder.hold(address, link_names(own.holder.interfaces))
            self._announce_all()
        after = {link.name for link in self.links}
        if before != after:
            log.info("interfaces: %s", ", ".join(sorted(after)) or "none")
            self._used |= after
            # The first interface that disappears must not end the condition that one of them transmits.
            self._observer.on_links_changed(self._interfaces or self._used)
            self._observer.on_held_changed({key for address in self._own for key in self._election.services(address)})

    def _on_conflict(self, address: IpAddress, mac: bytes, link: Link) -> None:
        own = self._own[address]
        if own.gives_up_at is not None:  # the new holder
            self._release(address)
            self._handovers.apply()
            return
        if self._view.is_isolated:  # the others have taken the addresses over, and are received again
            return
        verdict = self._conflicts.judge(address, mac, time.monotonic())
        if verdict.is_reported:
            message = f"another machine, {mac.hex(':')}, answers for {address} on {link.name}"
            log.warning("%s", message)
            for service in self._election.services(address):
                self._observer.record(EventReport(service, "Warning", "DuplicateAddress", message))
        if verdict.is_defended:
            self._responder.announce(address)
            asyncio.get_running_loop().call_later(PROBE_SECONDS, self._responder.probe, address)
