"""The nftables mode: keeps the kernel's tables equal to the Frontends. `agent.py` drives it.

`apply` sends the difference of some Services. `sync` brings the tables to what they should be from whatever they are:
at start, after a failed transaction, and when `verify` finds that somebody else changed them. `verify` costs one small
netlink question as long as nobody else touches the ruleset (its generation then only moves with our transactions).
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Sequence
from itertools import chain

from bridgehead.memory import give_back
from bridgehead.proxy.addresses import Family, family_of
from bridgehead.proxy.changes import Frontends, Update, merge_updates
from bridgehead.proxy.errors import NotFound, Refused, TooBig, TransactionFailed
from bridgehead.proxy.frontends import Frontend, Problem
from bridgehead.proxy.mode import Heard, Repair, Settings, Watched

from .apply import Kernel
from .chains import containers, word
from .events import Edits, parse_edits
from .readback import Table, parse_table
from .render import USUAL, Place, Renderer
from .transaction import Transaction

log = logging.getLogger(__name__)

_OURS = frozenset(containers(4))
_BEGINNINGS = re.compile(r"chain (\S+) \{\s+type \w+ hook (?:prerouting|output) ")
_COUNT = re.compile(rb" *# count \d+")  # later nft tells how many clients a set remembers, which is nobody's edit


class NftablesMode:
    """Owns the tables named bridgehead, or as `place` says, of this network namespace."""

    name = "nftables"

    def __init__(self, kernel: Kernel, settings: Settings, place: Place = USUAL) -> None:
        self._kernel = kernel
        self._place = place
        self._stand_in = Place(f"{place.table}-stand-in", place.chains)
        self._renderer = Renderer(settings, place)
        # Up to which generation the ruleset is known, and which later ones are our own; None: anything may have been.
        self._generation: int | None = None
        self._own: set[int] = set()
        self._elements_at_once = kernel.safe_elements
        self._unchecked_elements = False
        self._structure: dict[Family, bytes | None] | None = None  # the listing right after our last change of chains

    @property
    def watched(self) -> Watched:
        """The kernel tells what happens to our tables."""
        return Watched(frozenset((self._place.table,)))

    @property
    def settings(self) -> Settings:
        return self._renderer.settings

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""
        self._renderer = Renderer(settings, self._place)

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """What a Frontend asks for and does not get."""
        return None

    async def apply(self, updates: Sequence[Update]) -> int:
        """Bring the kernel from before the updates to after. Returns the elements touched. Raises TransactionFailed.

        After a failure the kernel is as it was before and only `sync` may follow.
        """
        update = merge_updates(updates)
        transaction = self._renderer.change(update.changes, update.old_cluster_ips, update.new_cluster_ips)
        if transaction:
            await self._send(transaction, self._generation)
        return transaction.size()

    async def sync(self, table: Frontends) -> int:
        """Make the kernel hold the table's Frontends and nothing else. Returns the elements touched."""
        generation = self._kernel.generation()
        try:
            transaction = self._renderer.full(table, table.cluster_ips(), await self._read((4, 6)))
            await self._send(transaction, generation)
        except TooBig:
            raise  # parts of it may be there; the next try reads again, and sends smaller ones
        except TransactionFailed as error:
            log.warning("replacing the whole table: %s", error)
            transaction = self._renderer.full(table, table.cluster_ips(), {})
            transaction.structure[:0] = self._replacing()
            if transaction.weight() > self._elements_at_once:
                await self._send_stand_in(table)
            await self._send(transaction, self._kernel.generation())
        await self._delete_tables(self._stand_in.table)
        self._unchecked_elements = False
        give_back()
        return transaction.size()

    async def mend(self, table: Frontends, heard: Heard) -> Repair | None:
        """Put right what others' transactions changed. None: there were some that were not heard, or not understood."""
        generation = self._kernel.generation()
        edits = self._edits(heard, generation)
        if edits is None:
            return None
        transaction = self._renderer.mend(table, edits.elements, edits.chains)
        structure = self._structure
        try:
            if transaction:
                await self._send(transaction, generation)
            else:
                self._know(generation)
        except (NotFound, Refused) as error:
            log.debug("reading everything, since the kernel has something else than it told: %s", error)
            return None
        if edits.chains:
            self._structure = structure
            # The name that a chain had is not told when it gets another one.
            if await self._list_structure() != structure:
                self._generation = None
                return None
        return Repair(structure=bool(edits.chains), elements=transaction.size())

    async def verify(self, table: Frontends, *, thoroughly: bool) -> Repair | None:
        """Put right what somebody else changed. None: nothing was wrong.

        `thoroughly` also compares every element when anybody changed anything since the last time that was done;
        without, only tables, chains and rules are.
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
            is_known_broken = self._structure is not None or None in listing.values()
            elements = await self.sync(table)
            await self._remember_own_structure()
            return Repair(structure=is_known_broken, elements=elements) if is_known_broken or elements else None
        self._know(generation)
        if not thoroughly:
            return None
        self._unchecked_elements = False
        difference = self._renderer.full(table, table.cluster_ips(), await self._read(self.settings.families))
        give_back()
        if not difference.size():
            return None
        await self._send(difference, generation)
        await self._remember_own_structure()
        return Repair(structure=False, elements=difference.size())

    def _edits(self, heard: Heard, generation: int) -> Edits | None:
        """What others changed since the ruleset was known. None: not all of it was heard, or understood."""
        if self._generation is None or generation - self._generation > len(heard) + len(self._own):
            return None
        others = [number for number in range(self._generation + 1, generation + 1) if number not in self._own]
        if not all(number in heard for number in others):
            return None
        news = chain.from_iterable(heard[number] for number in others)
        edits = parse_edits(news, self._place.table, self.settings.families)
        return None if edits is not None and edits.chains and self._structure is None else edits

    async def rehearse(self, table: Frontends) -> None:
        """Raise what the kernel has against these Frontends. Nothing is changed; what is there doesn't matter."""
        transaction = Renderer(self.settings, self._place).full(table, table.cluster_ips(), {})
        transaction.structure[:0] = self._replacing()
        await self._kernel.check(transaction.text())

    async def let_through(self, address: str, port: int) -> bool:
        """Exempt the address in the chains of both hooks by which connections begin."""
        family, table = word(family_of(address)), self._place.table
        listing = await self._kernel.list_structure(family, table)
        if listing is None or await self._has(f"{family} {table} cluster-ips {{ {address} }}"):
            return False
        rule = f"{family} daddr {address} tcp dport {port} accept"
        chains = _BEGINNINGS.findall(listing.decode(errors="replace"))
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
        """Take everything of ours out of the kernel. False: there was nothing."""
        removed = await self._delete_tables(self._place.table)
        return await self._delete_tables(self._stand_in.table) or removed

    def render(self, table: Frontends) -> str:
        """The whole ruleset as nft text, as for an empty kernel."""
        return Renderer(self.settings, self._place).full(table, table.cluster_ips(), {}).text()

    async def _send_stand_in(self, frontends: Frontends) -> None:
        """Write tables beside ours that serve alone while ours, emptied at once, are filled in parts."""
        await self._delete_tables(self._stand_in.table)  # of a proxy that was killed
        transaction = Renderer(self.settings, self._stand_in).full(frontends, frontends.cluster_ips(), {})
        for text in transaction.chunks(self._elements_at_once):
            await self._kernel.apply(text)

    async def _delete_tables(self, table: str) -> bool:
        """False: there were none."""
        removed = False
        for family in (4, 6):
            with contextlib.suppress(NotFound):
                await self._kernel.apply(f"delete table {word(family)} {table}\n")
                removed = True
        return removed

    async def _send(self, transaction: Transaction, known: int | None) -> None:
        """One atomic transaction, or, where the kernel does not take one so big, several.

        `known` is the generation whose content the transaction builds on. If others' steps came after that, `verify`
        looks at them; which steps are our own it can tell unless somebody else's came between those.
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
        """The ruleset of this generation is as it should be, unless noted otherwise."""
        self._generation = generation
        self._own.clear()

    def _replacing(self) -> list[str]:
        """What makes the tables empty, whatever they are."""
        table = self._place.table
        return [f"{verb} table {word(f)} {table}" for f in self.settings.families for verb in ("add", "delete")]

    async def _read(self, families: Iterable[Family]) -> dict[Family, Table]:
        """The families' tables, without those that are absent."""
        listings = {family: await self._kernel.list_table(word(family), self._place.table) for family in families}
        return {family: parse_table(listing, _OURS) for family, listing in listings.items() if listing is not None}

    async def _list_structure(self) -> dict[Family, bytes | None]:
        listings = {
            family: await self._kernel.list_structure(word(family), self._place.table)
            for family in self.settings.families
        }
        return {family: text and _COUNT.sub(b"", text) for family, text in listings.items()}

    async def _remember_own_structure(self) -> None:
        """After a repair: the next change may come at once, and has to be seen as one."""
        if self._generation is not None:
            await self._remember_structure(self._generation)

    async def _remember_structure(self, generation: int) -> None:
        listing = await self._list_structure()
        if self._kernel.generation() == generation:
            self._structure = listing
