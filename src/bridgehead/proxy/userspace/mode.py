"""The userspace mode: keeps listeners, and the rules that lead to them, equal to the Frontends. `agent.py` drives it.

The rules are those of the nftables mode with tables of their own, in which each Frontend has one backend: its listener.
A change of backends therefore changes nothing in the kernel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Iterator, Mapping, Sequence

from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.frontend_table import Change, Frontends, FrontendTable, Update, merge_updates
from bridgehead.proxy.frontends import Frontend, FrontendKey, Problem, Publication, Reason
from bridgehead.proxy.mode import ObservedCommits, Repair, Settings, Watched
from bridgehead.proxy.nftables import NftablesMode, TableSpec

from .apply import Kernel
from .listeners import Listeners
from .redirects import LISTENING, TABLE, Side, guards, inherited_ports, is_carried, redirect, sides

_FIRST_PORT = 32768  # of the made-up ports


class UserspaceMode:
    """The owner of listeners, their addresses, and the tables named bridgehead-userspace in this network namespace."""

    name = "userspace"

    def __init__(self, kernel: Kernel, settings: Settings, listeners: Listeners | None = None) -> None:
        self._kernel = kernel
        self._tables = NftablesMode(kernel, settings, TableSpec(TABLE, guards()))
        self.listeners = listeners or Listeners()
        self._redirected: dict[FrontendKey, Frontend] = {}  # as the kernel has them

    def close(self) -> None:
        """End all connections. The rules stay, and connections are refused until a proxy runs again."""
        self.listeners.close()

    @property
    def watched(self) -> Watched:
        """The tables, of whose changes the kernel sends notifications."""
        return self._tables.watched

    @property
    def settings(self) -> Settings:
        return self._tables.settings

    @property
    def families(self) -> tuple[Family, ...]:
        return self._kernel.families

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""
        self._tables.configure(settings)

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """Return a problem for SCTP, and for Services whose pods are to see their clients' addresses."""
        if not is_carried(frontend.key):
            return Problem(Reason.NOT_SUPPORTED, "mode userspace does not carry SCTP; its connections are refused")
        if frontend.is_local and frontend.published_as is not Publication.CLUSTER_IP:
            text = "externalTrafficPolicy Local: in mode userspace pods see the node's address, not the client's"
            return Problem(Reason.NOT_SUPPORTED, text)
        return None

    async def apply(self, updates: Sequence[Update]) -> int:
        """Carry out the updates. Returns the number of changed elements and listeners."""
        update = merge_updates(updates)
        changed = 0
        redirected = []
        before, wanted = set[Side](), set[Side]()
        for old, new in update.changes:
            if old is not None:
                before.update(sides(old))
            if new is not None:
                wanted.update(sides(new))
                changed += self.listeners.open(new)
            redirected.append(self._redirect(old, new))
        differences = [change for change in redirected if change.old != change.new]
        changed += await self._tables.apply([update._replace(changes=differences)])
        return changed + await self._close_unless(before, wanted)

    async def sync(self, table: FrontendTable) -> int:
        """Make listeners and rules those of the table's Frontends and nothing else."""
        changed = self._kernel.add_addresses(self.settings.families)
        if not self.listeners.ports:
            # Rules of an earlier run lead to ports of its own. At any other port, a listener could get connections of
            # another Service until the rules are replaced; at the same one it serves at once.
            self.listeners.inherit(*inherited_ports(table, await self._tables.read_endpoints()))
        wanted = set[Side]()
        self._redirected.clear()
        for frontend in table:
            wanted.update(sides(frontend))
            changed += self.listeners.open(frontend)
            self._redirect(None, frontend)
        changed += await self._tables.sync(_Redirected(self._redirected, table))
        self.listeners.inherit({}, ())
        return changed + await self._close_unless(self.listeners.sides(), wanted)

    async def repair(self, table: Frontends, observed: ObservedCommits) -> Repair | None:
        """Repair what other programs' transactions changed. None: some of these were not observed."""
        return await self._tables.repair(_Redirected(self._redirected, table), observed)

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        """Repair what another program changed. None: nothing was wrong."""
        added = self._kernel.add_addresses(self.settings.families)
        if self.listeners.unopened and thoroughly:
            await self.sync(table)  # sockets may be available again
        repair = await self._tables.verify(_Redirected(self._redirected, table), thoroughly=thoroughly)
        if not added:
            return repair
        return Repair(structure=True, elements=added + (repair.elements if repair is not None else 0))

    def listening(self) -> list[tuple[str, int]]:
        """Return the listeners' addresses and ports."""
        return [(LISTENING[side.key.family], port) for side, port in self.listeners.ports.items()]

    async def validate(self, table: FrontendTable) -> None:
        """Raise the error with which the kernel would reject these Frontends, whatever it has now. Changes nothing."""
        ports = _made_up_ports(table)
        redirected = {frontend.key: redirect(frontend, ports) for frontend in table}
        await self._tables.validate(_Redirected(redirected, table))

    async def let_through(self, address: str, port: int) -> bool:
        """Exempt connections to this address from the rules that an earlier proxy left."""
        return await self._tables.let_through(address, port)

    async def remove(self) -> bool:
        """Remove everything of ours from the kernel, and end all connections. False: there was nothing."""
        removed = await self._tables.remove()
        self.listeners.close()
        self._redirected.clear()
        return self._kernel.remove_addresses() or removed

    def render(self, table: FrontendTable) -> str:
        """Return the listeners, with made-up ports, and the ruleset as nft text, as for an empty kernel."""
        ports = _made_up_ports(table)
        lines = []
        for frontend in table:
            for side, backends in sides(frontend).items():
                targets = ", ".join(f"{backend.address} {backend.port}" for backend in backends)
                address = LISTENING[side.key.family]
                lines.append(f"# {address} {ports[side]}: {side} of {frontend.owner!r} to {targets}\n")
        redirected = {frontend.key: redirect(frontend, ports) for frontend in table}
        return "".join(lines) + self._tables.render(_Redirected(redirected, table))

    async def _close_unless(self, candidates: Collection[Side], wanted: Container[Side]) -> int:
        """Close the candidates that are not wanted, after the rules changed. Returns how many."""
        closed = self.listeners.close_unless(candidates, wanted)
        ports = {family: set[int]() for family in LISTENING}
        for side, port in closed.items():
            if side.key.protocol == "udp":
                ports[side.key.family].add(port)
        for family, closed_ports in ports.items():
            if closed_ports:
                await asyncio.to_thread(self._kernel.forget_flows, family, closed_ports)
        return len(closed)

    def _redirect(self, old: Frontend | None, new: Frontend | None) -> Change:
        """Return the change of the kernel's Frontends for a change of a Frontend."""
        before = self._redirected.pop(old.key, None) if old is not None else None
        if new is None:
            return Change(before, None)
        after = self._redirected[new.key] = redirect(new, self.listeners.ports)
        return Change(before, after)


def _made_up_ports(table: FrontendTable) -> dict[Side, int]:
    """Return ports as if listeners were opened in order."""
    wanted = [side for frontend in table for side in sides(frontend)]
    return {side: _FIRST_PORT + number % (65536 - _FIRST_PORT) for number, side in enumerate(wanted)}


class _Redirected:
    """The table of the Frontends as the kernel has them."""

    def __init__(self, redirected: Mapping[FrontendKey, Frontend], table: Frontends) -> None:
        self._redirected = redirected
        self._table = table

    def __iter__(self) -> Iterator[Frontend]:
        return iter(self._redirected.values())

    def get(self, key: FrontendKey) -> Frontend | None:
        return self._redirected.get(key)

    def cluster_ips(self) -> Iterator[str]:
        return self._table.cluster_ips()
