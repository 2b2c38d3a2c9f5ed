"""The userspace mode: keeps listeners, and the kernel's way to them, equal to the Frontends. `agent.py` drives it.

The kernel's part is the nftables mode with tables of its own, in which each Frontend has one backend: its listener. So
a change of backends touches no kernel at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Iterator, Mapping, Sequence

from bridgehead.proxy.changes import Change, Frontends, FrontendTable, Update, merge_updates
from bridgehead.proxy.frontends import Frontend, FrontendKey, Problem, Publication, Reason
from bridgehead.proxy.mode import Heard, Repair, Settings, Watched
from bridgehead.proxy.nftables import NftablesMode, Place

from .apply import Kernel
from .listeners import Listeners
from .redirects import LISTENING, TABLE, Side, guards, is_carried, redirect, sides

_FIRST_PORT = 32768  # where nobody really listens


class UserspaceMode:
    """Owns its listeners, their addresses, and the tables named bridgehead-userspace of this network namespace."""

    name = "userspace"

    def __init__(self, kernel: Kernel, settings: Settings, listeners: Listeners | None = None) -> None:
        self._kernel = kernel
        self._tables = NftablesMode(kernel, settings, Place(TABLE, guards()))
        self.listeners = listeners or Listeners()
        self._redirected: dict[FrontendKey, Frontend] = {}  # what the kernel was told last

    def close(self) -> None:
        """End all connections. The rules stay; whoever follows them is refused until a proxy runs again."""
        self.listeners.close()

    @property
    def watched(self) -> Watched:
        """The kernel tells what happens to our tables."""
        return self._tables.watched

    @property
    def settings(self) -> Settings:
        return self._tables.settings

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""
        self._tables.configure(settings)

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """SCTP, and that a pod sees its client's address."""
        if not is_carried(frontend.key):
            return Problem(Reason.NOT_SUPPORTED, "mode userspace does not carry SCTP; its connections are refused")
        if frontend.is_local and frontend.published_as is not Publication.CLUSTER_IP:
            text = "externalTrafficPolicy Local: in mode userspace pods see the node's address, not the client's"
            return Problem(Reason.NOT_SUPPORTED, text)
        return None

    async def apply(self, updates: Sequence[Update]) -> int:
        """Bring listeners and kernel from before the updates to after. Returns the elements and listeners touched."""
        update = merge_updates(updates)
        touched = 0
        redirected = []
        before, wanted = set[Side](), set[Side]()
        for old, new in update.changes:
            if old is not None:
                before.update(sides(old))
            if new is not None:
                wanted.update(sides(new))
                touched += self.listeners.open(new)
            redirected.append(self._redirect(old, new))
        differences = [change for change in redirected if change.old != change.new]
        touched += await self._tables.apply([update._replace(changes=differences)])
        return touched + await self._close_unless(before, wanted)

    async def sync(self, table: FrontendTable) -> int:
        """Listen for the table's Frontends, and make the kernel lead to that and nothing else of ours."""
        touched = self._kernel.add_addresses(self.settings.families)
        wanted = set[Side]()
        self._redirected.clear()
        for frontend in table:
            wanted.update(sides(frontend))
            touched += self.listeners.open(frontend)
            self._redirect(None, frontend)
        touched += await self._tables.sync(_Redirected(self._redirected, table))
        return touched + await self._close_unless(self.listeners.sides(), wanted)

    async def mend(self, table: Frontends, heard: Heard) -> Repair | None:
        """Put right what others' transactions changed. None: there were some that were not heard."""
        return await self._tables.mend(_Redirected(self._redirected, table), heard)

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        """Put right what somebody else changed. None: nothing was wrong."""
        added = self._kernel.add_addresses(self.settings.families)
        if self.listeners.lacking and thoroughly:
            await self.sync(table)  # there may be sockets again
        repair = await self._tables.verify(_Redirected(self._redirected, table), thoroughly=thoroughly)
        if not added:
            return repair
        return Repair(structure=True, elements=added + (repair.elements if repair is not None else 0))

    def listening(self) -> list[tuple[str, int]]:
        """Where, by address and port."""
        return [(LISTENING[side.key.family], port) for side, port in self.listeners.ports.items()]

    async def rehearse(self, table: FrontendTable) -> None:
        """Raise what the kernel has against these Frontends. Nothing is changed; what is there doesn't matter."""
        ports = _made_up_ports(table)
        redirected = {frontend.key: redirect(frontend, ports) for frontend in table}
        await self._tables.rehearse(_Redirected(redirected, table))

    async def let_through(self, address: str, port: int) -> bool:
        """Let connections to this address pass by the rules that an earlier proxy left."""
        return await self._tables.let_through(address, port)

    async def remove(self) -> bool:
        """Take everything of ours out of the kernel, and end all connections. False: there was nothing."""
        removed = await self._tables.remove()
        self.listeners.close()
        self._redirected.clear()
        return self._kernel.remove_addresses() or removed

    def render(self, table: FrontendTable) -> str:
        """The listeners, and the ruleset as nft text, as for an empty kernel. Ports are only known when it is done."""
        ports = _made_up_ports(table)
        lines = []
        for frontend in table:
            for side, backends in sides(frontend).items():
                places = ", ".join(f"{backend.address} {backend.port}" for backend in backends)
                address = LISTENING[side.key.family]
                lines.append(f"# {address} {ports[side]}: {side} of {frontend.owner!r} to {places}\n")
        redirected = {frontend.key: redirect(frontend, ports) for frontend in table}
        return "".join(lines) + self._tables.render(_Redirected(redirected, table))

    async def _close_unless(self, candidates: Collection[Side], wanted: Container[Side]) -> int:
        """Close listeners, to which the kernel leads nothing new any more. Returns how many."""
        closed = self.listeners.close_unless(candidates, wanted)
        ports = {family: set[int]() for family in LISTENING}
        for side, port in closed.items():
            if side.key.protocol == "udp":
                ports[side.key.family].add(port)
        for family, its in ports.items():
            if its:
                await asyncio.to_thread(self._kernel.forget_flows, family, its)
        return len(closed)

    def _redirect(self, old: Frontend | None, new: Frontend | None) -> Change:
        """What the change is to the kernel."""
        before = self._redirected.pop(old.key, None) if old is not None else None
        if new is None:
            return Change(before, None)
        after = self._redirected[new.key] = redirect(new, self.listeners.ports)
        return Change(before, after)


def _made_up_ports(table: FrontendTable) -> dict[Side, int]:
    """As if listeners were opened in order."""
    wanted = [side for frontend in table for side in sides(frontend)]
    return {side: _FIRST_PORT + number % (65536 - _FIRST_PORT) for number, side in enumerate(wanted)}


class _Redirected:
    """The Frontends as the kernel has to know them."""

    def __init__(self, redirected: Mapping[FrontendKey, Frontend], table: Frontends) -> None:
        self._redirected = redirected
        self._table = table

    def __iter__(self) -> Iterator[Frontend]:
        return iter(self._redirected.values())

    def get(self, key: FrontendKey) -> Frontend | None:
        return self._redirected.get(key)

    def cluster_ips(self) -> Iterator[str]:
        return self._table.cluster_ips()
