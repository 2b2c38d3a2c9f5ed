"""The nftables mode: keeps the kernel's tables equal to the Frontends.

`agent.py` drives it. `apply` sends the difference of some Services. `sync` reads the tables and sends the difference
to what they should be: at start, after a failed transaction, and when `verify` finds that somebody else changed them.
`verify` costs one small netlink request as long as nobody else changes the ruleset (its generation then changes only
with our transactions).
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Sequence
from itertools import chain

from bridgehead.heap import trim_heap
from bridgehead.proxy.address_texts import Family, family_of
from bridgehead.proxy.errors import Busy, NotFound, Refused, TooBig, TransactionFailed
from bridgehead.proxy.frontend_table import Frontends, Update, merge_updates
from bridgehead.proxy.frontends import Frontend, Problem
from bridgehead.proxy.mode import ObservedCommits, Repair, Settings, Watched

from .apply import Kernel
from .chains import containers, family_keyword
from .notifications import Edits, parse_edits
from .readback import Table, parse_table
from .render import Renderer, TableSpec
from .transaction import Transaction

log = logging.getLogger(__name__)

_OURS = frozenset(containers(4))
_find_first_chains = re.compile(r"chain (\S+) \{\s+type \w+ hook (?:prerouting|output) ").findall
_COUNT = re.compile(rb" *# count \d+")  # newer nft prints the number of elements of the map of clients


class NftablesMode:
    """Owns the tables of that name in this network namespace."""

    name = "nftables"

    def __init__(self, kernel: Kernel, settings: Settings, table: TableSpec | None = None) -> None:
        self._kernel = kernel
        self._table = table if table is not None else TableSpec()
        self._stand_in = TableSpec(f"{self._table.name}-stand-in", self._table.chains)
        self._renderer = Renderer(settings, self._table)
        # The last generation whose content is known (None: nothing is known), and later generations that we made
        # ourselves.
        self._generation: int | None = None
        self._own: set[int] = set()
        self._elements_at_once = kernel.safe_elements
        self._unchecked_elements = False
        self._structure: dict[Family, bytes | None] | None = None  # the listing after our last change of chains

    @property
    def watched(self) -> Watched:
        """Our tables, of whose changes the kernel sends notifications."""
        return Watched(frozenset((self._table.name,)))

    @property
    def settings(self) -> Settings:
        return self._renderer.settings

    @property
    def families(self) -> tuple[Family, ...]:
        return self._kernel.families

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""
        self._renderer = Renderer(settings, self._table)

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """Return None: this mode supports all that a Frontend can ask for."""
        return None

    async def apply(self, updates: Sequence[Update]) -> int:
        """Apply the updates to the kernel. Returns the number of elements touched. Raises TransactionFailed.

        After a failure the kernel is as it was before, and only `sync` may follow.
        """
        update = merge_updates(updates)
        transaction = self._renderer.change(update.changes, update.old_cluster_ips, update.new_cluster_ips)
        if transaction:
            await self._send(transaction, self._generation)
        return transaction.size()

    async def sync(self, table: Frontends) -> int:
        """Make the kernel hold the table's Frontends and nothing else. Returns the number of elements touched."""
        generation = self._kernel.generation()
        try:
            transaction = self._renderer.full(table, table.cluster_ips(), await self._read((4, 6)))
            if transaction:
                await self._send(transaction, generation)
            else:
                self._know(generation)
        except (TooBig, Busy):
            raise  # some parts may be applied; the next try reads the tables again, and sends smaller parts
        except TransactionFailed as error:
            log.warning("replacing the whole table: %s", error)
            transaction = self._renderer.full(table, table.cluster_ips(), {})
            transaction.structure[:0] = self._replacing()
            if transaction.weight() > self._elements_at_once:
                await self._send_stand_in(table)
            await self._send(transaction, self._kernel.generation())
        await self._delete_tables(self._stand_in.name)
        self._unchecked_elements = False
        trim_heap()
        return transaction.size()

    async def repair(self, table: Frontends, observed: ObservedCommits) -> Repair | None:
        """Repair what others' transactions changed. None: some transactions are unknown, so `verify` has to look."""
        generation = self._kernel.generation()
        edits = self._edits(observed, generation)
        if edits is None:
            return None
        transaction = self._renderer.repair(table, edits.elements, edits.chains)
        structure = self._structure
        try:
            if transaction:
                await self._send(transaction, generation)
            else:
                self._know(generation)
        except (NotFound, Refused) as error:
            log.debug("reading everything, since the kernel differs from its notifications: %s", error)
            return None
        if edits.chains:
            self._structure = structure
            # The notification of a renamed chain lacks its old name.
            if await self._list_structure() != structure:
                self._generation = None
                return None
        return Repair(structure=bool(edits.chains), elements=transaction.size())

    async def verify(self, table: Frontends, *, thoroughly: bool) -> Repair | None:
        """Repair what somebody else changed. None: nothing was wrong.

        Compares tables, chains and rules; `thoroughly` also all elements, if the ruleset changed since they were
        compared last.
        """
        generation = self._kernel.generation()
        if generation == self._generation and not (thoroughly and self._unchecked_elements):
            if self._structure is None:
                await self._remember_structure(generation)
            return None
        if generation != self._generation:
            self._unchecked_elements = True
        listing = await self._list_structure()
        if self._structure is None or listing != self._structure:
            is_known_broken = self._structure is not None or any(listing[f] is None for f in self._renderer.families)
            elements = await self.sync(table)
            await self._remember_own_structure()
            return Repair(structure=is_known_broken, elements=elements) if is_known_broken or elements else None
        self._know(generation)
        if not thoroughly:
            return None
        self._unchecked_elements = False
        difference = self._renderer.full(table, table.cluster_ips(), await self._read(self.settings.families))
        trim_heap()
        if not difference.size():
            return None
        await self._send(difference, generation)
        await self._remember_own_structure()
        return Repair(structure=False, elements=difference.size())

    def _edits(self, observed: ObservedCommits, generation: int) -> Edits | None:
        """Return what others changed since the known generation. None: a notification is missing or unknown."""
        if self._generation is None or generation - self._generation > len(observed) + len(self._own):
            return None
        others = [number for number in range(self._generation + 1, generation + 1) if number not in self._own]
        if not all(number in observed for number in others):
            return None
        notifications = chain.from_iterable(observed[number] for number in others)
        edits = parse_edits(notifications, self._table.name, self.settings.families)
        return None if edits is not None and edits.chains and self._structure is None else edits

    async def validate(self, table: Frontends) -> None:
        """Raise the kernel's error for these Frontends, as for empty tables, without changing anything."""
        renderer = Renderer(self.settings, self._table)
        transaction = renderer.full(table, table.cluster_ips(), {})
        transaction.structure[:0] = (*self._replacing(), *renderer.empty_tables())
        await self._kernel.check(transaction.text())

    async def let_through(self, address: str, port: int) -> bool:
        """Exempt the address in the first chains that new connections meet, of both hooks."""
        family, table = family_keyword(family_of(address)), self._table.name
        listing = await self._kernel.list_structure(family, table)
        if listing is None or await self._has(f"{family} {table} cluster-ips {{ {address} }}"):
            return False
        rule = f"{family} daddr {address} tcp dport {port} accept"
        chains = _find_first_chains(listing.decode(errors="replace"))
        if not chains or rule in listing.decode(errors="replace"):
            return False
        await self._kernel.apply("".join(f"insert rule {family} {table} {chain} {rule}\n" for chain in chains))
        return True

    async def _has(self, element: str) -> bool:
        try:
            await self._kernel.apply(f"get element {element}\n")
        except (NotFound, Refused):
            return False
        return True

    async def remove(self) -> bool:
        """Delete our tables. False: there were none."""
        removed = await self._delete_tables(self._table.name)
        return await self._delete_tables(self._stand_in.name) or removed

    def render(self, table: Frontends) -> str:
        """Return the whole ruleset as nft text, as for an empty kernel."""
        return Renderer(self.settings, self._table).full(table, table.cluster_ips(), {}).text()

    async def _send_stand_in(self, frontends: Frontends) -> None:
        """Write tables that serve beside ours, while ours are emptied at once and filled in parts."""
        await self._delete_tables(self._stand_in.name)  # left by a proxy that was killed
        transaction = Renderer(self.settings, self._stand_in).full(frontends, frontends.cluster_ips(), {})
        for text in transaction.chunks(self._elements_at_once):
            await self._kernel.apply(text)

    async def _delete_tables(self, table: str) -> bool:
        """False: there were none."""
        removed = False
        for family in ("ip", "ip6"):
            if self._kernel.has_table(family, table):
                with contextlib.suppress(NotFound):
                    await self._kernel.apply(f"delete table {family} {table}\n")
                    removed = True
        return removed

    async def _send(self, transaction: Transaction, known: int | None) -> None:
        """Apply one atomic transaction, or, where the kernel does not take one so big, several.

        `known` is the generation whose content the transaction builds on. `verify` looks at others' transactions after
        that. This process's transactions are recognized unless another program's came between them.
        """
        if transaction.structure or transaction.closing:
            self._structure = None
        own, self._own = self._own, set()
        self._generation = None
        texts = [transaction.text()]
        if transaction.weight() > self._elements_at_once:
            texts = list(transaction.chunks(self._elements_at_once))
            log.info("%d elements are too many for one transaction here; sending them in parts", transaction.size())
        before = self._kernel.generation()
        try:
            for text in texts:
                await self._kernel.apply(text)
        except TooBig:
            self._elements_at_once = max(self._elements_at_once // 2, 100)  # for the full sync that follows
            raise
        if known is None:
            return
        after = before + len(texts)
        if before == known:
            self._know(after)
        else:
            self._generation, self._own = known, own
            if self._kernel.generation() == after:
                self._own.update(range(before + 1, after + 1))

    def _know(self, generation: int) -> None:
        """Record that the ruleset of this generation is as it should be."""
        self._generation = generation
        self._own.clear()

    def _replacing(self) -> list[str]:
        """Return statements that delete the tables, whether they exist or not."""
        table = self._table.name
        return [
            f"{verb} table {family_keyword(f)} {table}" for f in self.settings.families for verb in ("add", "delete")
        ]

    async def _read(self, families: Iterable[Family]) -> dict[Family, Table]:
        """Return the families' tables, without those that do not exist."""
        listings = {f: await self._kernel.list_table(family_keyword(f), self._table.name) for f in families}
        return {family: parse_table(listing, _OURS) for family, listing in listings.items() if listing is not None}

    async def read_endpoints(self) -> dict[str, str]:
        """Return the elements of the maps `endpoints`, key -> "address . port"; {} when they cannot be read."""
        try:
            tables = await self._read((4, 6))
        except TransactionFailed as error:
            log.debug("cannot read the endpoints of an earlier run: %s", error)
            return {}
        return {key: value for table in tables.values() for key, value in table.elements.get("endpoints", {}).items()}

    async def _list_structure(self) -> dict[Family, bytes | None]:
        listings = {
            family: await self._kernel.list_structure(family_keyword(family), self._table.name)
            for family in self.settings.families
        }
        return {family: text and _COUNT.sub(b"", text) for family, text in listings.items()}

    async def _remember_own_structure(self) -> None:
        """Record the structure after a repair, so that a change that follows at once is detected."""
        if self._generation is not None:
            await self._remember_structure(self._generation)

    async def _remember_structure(self, generation: int) -> None:
        listing = await self._list_structure()
        if self._kernel.generation() == generation:
            self._structure = listing
