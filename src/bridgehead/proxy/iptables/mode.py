"""The iptables mode: keeps the kernel's KUBE-* chains equal to the Frontends. `agent.py` drives it.

`apply` sends the chains that some Services change. `sync` brings all chains to what they should be from whatever they
are: at start, after a failed transaction, and when `verify` finds that somebody else changed them. `verify` costs
microseconds as long as nobody else touches the tables.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence

from bridgehead.proxy.addresses import Family, family_of
from bridgehead.proxy.changes import Frontends, FrontendTable, Update, merge_updates
from bridgehead.proxy.errors import NotFound, Refused, TooBig
from bridgehead.proxy.frontends import Frontend, Problem
from bridgehead.proxy.mode import Heard, Repair, Settings, Watched

from .apply import Kernel, State
from .chains import CANARY, TABLES, Chain, jumps
from .readback import Table, parse_listing
from .render import Renderer, exemption
from .transaction import Transaction

log = logging.getLogger(__name__)

FAMILIES: Mapping[str, Family] = {"ip": 4, "ip6": 6}  # as the kernel's news have them
_CHEAP_TO_LIST = 20_000  # rules; about 0.2 s


class IptablesMode:
    """Owns the KUBE-* chains that kube-proxy would have in this network namespace."""

    name = "iptables"

    def __init__(self, kernel: Kernel, settings: Settings) -> None:
        self._kernel = kernel
        self._renderer = Renderer(settings)
        # What the kernel said after our last transaction; None when somebody else's came between, or anything may have.
        self._state: State | None = None
        self._lines_at_once = kernel.safe_lines
        self._unchecked = False
        self._rules = 0  # about how many there are
        self._is_alone = False  # whether nothing of ours is in the other variant
        self._knows_words = False  # whether rules that are right have been seen to be printed as they were written

    @property
    def watched(self) -> Watched | None:
        """The kernel tells what happens to the nft variant's chains, and nothing of the legacy variant's."""
        if self._kernel.variant != "nft":
            return None
        return Watched(frozenset(TABLES), ("KUBE-", *{jump.chain for jump in jumps()}))

    @property
    def settings(self) -> Settings:
        return self._renderer.settings

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""
        self._renderer = Renderer(settings)

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """Everything a Frontend can ask for is there."""
        return None

    async def apply(self, updates: Sequence[Update]) -> int:
        """Bring the kernel from before the updates to after. Returns the rules and chains written."""
        update = merge_updates(updates)
        transaction = self._renderer.change(update.changes, update.old_cluster_ips, update.new_cluster_ips)
        if transaction:
            await self._send(transaction)
        return transaction.size()

    async def sync(self, table: FrontendTable) -> int:
        """Make the kernel hold the table's Frontends and nothing else of ours. Returns the rules and chains written."""
        self._state = self._kernel.state()
        transaction = await self._compare(table)
        try:
            await self._send(transaction)
        except TooBig:
            raise  # parts of it may be there; the next try reads again, and sends smaller ones
        except Refused as error:
            if not any(part.removed for part in transaction.parts.values()):
                raise
            # Somebody else's rule may lead to a chain that is stale. It is emptied, then, and stays.
            log.warning("stale chains cannot be removed, emptying them: %s", error)
            transaction = await self._compare(table)
            for part in transaction.parts.values():
                part.written.update(dict.fromkeys(part.removed, ()))
                part.removed.clear()
            await self._send(transaction)
        self._unchecked = False
        if not self._is_alone:
            await self._remove_from_other_variants()
            self._is_alone = True
        return transaction.size()

    async def mend(self, table: Frontends, heard: Heard) -> Repair | None:
        """Put right what others' transactions changed. None: there were some that were not heard."""
        state = self._kernel.state()
        numbers = self._kernel.between(self._state, state) if self._state is not None else None
        if numbers is None or len(numbers) > len(heard) or not all(number in heard for number in numbers):
            return None
        touched = {
            (FAMILIES[one.family], Chain(one.table, one.chain)): not one.is_gone
            for number in numbers
            for one in heard[number]
            if one.family in FAMILIES
        }
        kernel: dict[Family, dict[str, Table]] = {}
        for family, (name_of_table, name) in touched:
            if not name.startswith("KUBE-"):
                rules = await self._kernel.list_chain(family, name_of_table, name)
                kernel.setdefault(family, {}).setdefault(name_of_table, Table()).chains[name] = rules
        transaction = self._renderer.mend(touched, kernel)
        if transaction.size() > self._lines_at_once:
            return None  # in parts, it has to be known what is left of each chain
        self._state = state
        # Nobody tells of a chain that it was called otherwise before: so all is compared when there is time.
        self._unchecked |= bool(numbers)
        try:
            await self._send(transaction)
        except (NotFound, Refused) as error:
            log.debug("reading everything, since the kernel has something else than it told: %s", error)
            return None
        return Repair(structure=bool(transaction), elements=transaction.size())

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        """Put right what somebody else changed. None: nothing was wrong.

        Whenever anybody has changed anything, all rules are compared. In the nft variant, if they are too many to list
        at once, `thoroughly` says when to, since what was heard has been mended; in between only chains that stand for
        all of a table are looked for. In the legacy variant a rule in the place of another may leave the sizes as they
        were, so there `thoroughly` compares all that is cheap to list.
        """
        state = self._kernel.state()
        is_heard, is_cheap = self._kernel.variant == "nft", self._rules <= _CHEAP_TO_LIST
        if state == self._state and not (thoroughly and (self._unchecked or (is_cheap and not is_heard))):
            return None
        if is_heard and not thoroughly and not is_cheap and await self._has_canaries():
            self._state, self._unchecked = state, True
            return None
        self._state, self._unchecked = state, False
        transaction = await self._compare(table)
        if not transaction:
            self._knows_words = True
            return None
        await self._send(transaction)
        if self._renderer.compares_words and not self._knows_words:
            self._knows_words = not await self._compare(table)
            self._renderer.compares_words = self._knows_words
            if not self._knows_words:
                log.info("this iptables-save prints rules in other words than known; only their numbers are compared")
        return Repair(structure=True, elements=transaction.size())

    async def rehearse(self, table: FrontendTable) -> None:
        """Raise what iptables-restore has against these Frontends. What only the kernel would refuse is not found."""
        for family, text in Renderer(self.settings).full(table, table.cluster_ips(), {}).texts().items():
            await self._kernel.check(family, text)

    async def let_through(self, address: str, port: int) -> bool:
        """Exempt the address at the head of each chain to which the built-in ones lead, in whichever variant it is."""
        done = await _let_through(self._kernel, address, port)
        for variant in self._kernel.other_variants():
            with contextlib.closing(Kernel(variant)) as kernel:
                done |= await _let_through(kernel, address, port)
        return done

    async def remove(self) -> bool:
        """Take everything of ours out of the kernel, whichever variant it is in. False: there was nothing."""
        self._state = None
        removed = await _remove(self._kernel, self.settings)
        return await self._remove_from_other_variants() or removed

    def rule_counts(self) -> Mapping[str, int]:
        """How many rules of ours there are, by table, but for the jumps to them: kube-proxy's count."""
        counts = self._renderer.rule_counts()
        return {table: counts[table] for table in ("filter", "nat")}

    def render(self, table: FrontendTable) -> str:
        """The whole ruleset as text for iptables-restore and ip6tables-restore, as for an empty kernel."""
        texts = Renderer(self.settings).full(table, table.cluster_ips(), {}).texts()
        return "".join(
            f"# {'ip6' if family == 6 else 'ip'}tables-restore --noflush\n{text}" for family, text in texts.items()
        )

    async def _remove_from_other_variants(self) -> bool:
        removed = False
        for variant in self._kernel.other_variants():
            with contextlib.closing(Kernel(variant)) as kernel:
                removed |= await _remove(kernel, self.settings)
        return removed

    async def _compare(self, table: FrontendTable) -> Transaction:
        """What has to be sent so that the kernel is as it should be."""
        kernel = await _read(self._kernel, (4, 6))
        self._rules = sum(
            len(rules) for tables in kernel.values() for found in tables.values() for rules in found.chains.values()
        )
        return self._renderer.full(table, table.cluster_ips(), kernel)

    async def _has_canaries(self) -> bool:
        for family in self.settings.families:
            for table in TABLES:
                if not await self._kernel.has_chain(family, table, CANARY):
                    return False
        return True

    async def _send(self, transaction: Transaction) -> None:
        """Each table in one transaction of its own, or, where the kernel does not take one so big, in several."""
        before, self._state = self._state, None
        is_ours_so_far = before is not None and before == self._kernel.state()
        texts: Iterable[tuple[Family, str]] = transaction.texts().items()
        if transaction.size() > self._lines_at_once:
            texts = list(transaction.chunks(self._lines_at_once))
            log.info("%d lines are too many for one transaction here; sending them in parts", transaction.size())
        sent = 0
        try:
            for family, text in texts:
                await self._kernel.restore(family, text)
                sent += text.count("COMMIT\n")
        except TooBig:
            self._lines_at_once = max(self._lines_at_once // 2, 50)  # for the full sync that follows
            raise
        if before is not None and is_ours_so_far:
            self._state = self._kernel.state_after(before, sent)


async def _let_through(kernel: Kernel, address: str, port: int) -> bool:
    family = family_of(address)
    transaction = exemption(parse_listing(await kernel.save(family)), address, port)
    for text in transaction.texts().values():
        await kernel.restore(family, text)
    return bool(transaction)


async def _read(kernel: Kernel, families: Iterable[Family]) -> dict[Family, dict[str, Table]]:
    return {family: parse_listing(await kernel.save(family)) for family in families}


async def _remove(kernel: Kernel, settings: Settings) -> bool:
    transaction = Renderer(settings).removal(await _read(kernel, (4, 6)))
    try:
        for family, text in transaction.texts().items():
            await kernel.restore(family, text)
    except TooBig:
        rest = Renderer(settings).removal(await _read(kernel, (4, 6)))  # some tables may be done
        for family, text in rest.chunks(kernel.safe_lines):
            await kernel.restore(family, text)
    return bool(transaction)
