"""The nftables mode: keeps the kernel's tables equal to the Frontends. `agent.py` drives it.

`apply` sends the difference of some Services. `sync` brings the tables to what they should be from whatever they are:
at start, after a failed transaction, and when `verify` finds that somebody else changed them. `verify` costs one small
netlink question as long as nobody else touches the ruleset (its generation then only moves with our transactions).
"""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Iterable, Sequence

from bridgehead.proxy.changes import FrontendTable, Update, merge_changes
from bridgehead.proxy.errors import NotFound, TooBig, TransactionFailed
from bridgehead.proxy.frontends import Family, Frontend, Problem
from bridgehead.proxy.mode import Repair, Settings

from .apply import Kernel
from .chains import containers, word
from .readback import Table, parse_table
from .render import TABLE, Renderer, Transaction

log = logging.getLogger(__name__)

_OURS = frozenset(containers(4))
_COUNT = re.compile(rb" *# count \d+")  # later nft tells how many clients a set remembers, which is nobody's edit


class NftablesMode:
    """Owns the tables named bridgehead of this network namespace."""

    name = "nftables"

    def __init__(self, kernel: Kernel, settings: Settings) -> None:
        self._kernel = kernel
        self._renderer = Renderer(settings)
        # The generation after our last transaction; None when somebody else's came between, or anything may have.
        self._generation: int | None = None
        self._elements_at_once = kernel.safe_elements
        self._unchecked_elements = False
        self._structure: dict[Family, bytes | None] | None = None  # the listing right after our last change of chains

    @property
    def settings(self) -> Settings:
        return self._renderer.settings

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""
        self._renderer = Renderer(settings)

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """What a Frontend asks for and does not get."""
        return None

    async def apply(self, updates: Sequence[Update]) -> int:
        """Bring the kernel from before the updates to after. Returns the elements touched. Raises TransactionFailed.

        After a failure the kernel is as it was before and only `sync` may follow.
        """
        transaction = self._renderer.change(
            merge_changes(updates),
            [address for update in updates for address in update.old_cluster_ips],
            [address for update in updates for address in update.new_cluster_ips],
        )
        if transaction:
            await self._send(transaction, self._generation)
        return transaction.size()

    async def sync(self, table: FrontendTable) -> int:
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
            drop = [f"{verb} table {word(f)} {TABLE}" for f in self.settings.families for verb in ("add", "delete")]
            transaction.structure[:0] = drop
            await self._send(transaction, self._kernel.generation())
        self._unchecked_elements = False
        _return_memory()
        return transaction.size()

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
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
            return Repair(structure=is_known_broken, elements=elements) if is_known_broken or elements else None
        self._generation = generation
        if not thoroughly:
            return None
        self._unchecked_elements = False
        difference = self._renderer.full(table, table.cluster_ips(), await self._read(self.settings.families))
        _return_memory()
        if not difference.size():
            return None
        await self._send(difference, generation)
        return Repair(structure=False, elements=difference.size())

    async def remove(self) -> bool:
        """Take everything of ours out of the kernel. False: there was nothing."""
        removed = False
        for family in (4, 6):
            try:
                await self._kernel.apply(f"delete table {word(family)} {TABLE}\n")
                removed = True
            except NotFound:
                continue
        return removed

    def render(self, table: FrontendTable) -> str:
        """The whole ruleset as nft text, as for an empty kernel."""
        return Renderer(self.settings).full(table, table.cluster_ips(), {}).text()

    async def _send(self, transaction: Transaction, known: int | None) -> None:
        """One atomic transaction, or, where the kernel does not take one so big, several.

        `known` is the generation whose content the transaction builds on. Our own steps from there are counted, so that
        one more than those is somebody else's, which `verify` then looks at.
        """
        if transaction.structure or transaction.closing:
            self._structure = None
        self._generation = None
        texts = [transaction.text()]
        if transaction.weight() > self._elements_at_once:
            texts = [text for text in transaction.chunks(self._elements_at_once) if text]
            log.info("%d elements are too many for one transaction here; sending them in parts", transaction.size())
        try:
            for text in texts:
                await self._kernel.apply(text)
        except TooBig:
            self._elements_at_once = max(self._elements_at_once // 2, 100)  # for the full sync that follows
            raise
        if known is not None:
            self._generation = known + len(texts)

    async def _read(self, families: Iterable[Family]) -> dict[Family, Table]:
        """The families' tables, without those that are absent."""
        listings = {family: await self._kernel.list_table(word(family), TABLE) for family in families}
        return {family: parse_table(listing, _OURS) for family, listing in listings.items() if listing is not None}

    async def _list_structure(self) -> dict[Family, bytes | None]:
        listings = {family: await self._kernel.list_structure(word(family), TABLE) for family in self.settings.families}
        return {family: text and _COUNT.sub(b"", text) for family, text in listings.items()}

    async def _remember_structure(self, generation: int) -> None:
        listing = await self._list_structure()
        if self._kernel.generation() == generation:
            self._structure = listing


def _return_memory() -> None:
    """Give what a big rendering used back to the system; glibc would keep it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return
