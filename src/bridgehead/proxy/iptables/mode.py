"""The iptables mode: keeps the kernel's KUBE-* chains equal to the Frontends.

`agent.py` drives it. `apply` sends the chains that some Services change. `sync` reads all chains and sends those that
differ: at start, after a failed transaction, and when `verify` finds that somebody else changed them. `verify` costs
microseconds as long as nobody else changes the tables.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence

from bridgehead.proxy.address_texts import Family, family_of
from bridgehead.proxy.errors import Disturbed, NotFound, Refused, TooBig
from bridgehead.proxy.frontend_table import Frontends, FrontendTable, Update, merge_updates
from bridgehead.proxy.frontends import Frontend, Problem
from bridgehead.proxy.mode import ObservedCommits, Repair, Settings, Watched

from . import kube_proxy_takeover
from .apply import Kernel, State
from .chains import CANARY, TABLES, Chain, jumps
from .readback import UNKNOWN_FORMAT, Table, parse_listing
from .render import Renderer, exemption
from .transaction import Transaction

log = logging.getLogger(__name__)

FAMILIES: Mapping[str, Family] = {"ip": 4, "ip6": 6}  # as in the kernel's notifications
_CHEAP_TO_LIST = 20_000  # rules; about 0.2 s
_ATTEMPTS = 3  # of a full sync that another program disturbs
_LEAST_BYTES = 50_000  # of a transaction, however often it was too big


class IptablesMode:
    """Owns kube-proxy's KUBE-* chains in this network namespace."""

    name = "iptables"

    def __init__(self, kernel: Kernel, settings: Settings) -> None:
        self._kernel = kernel
        self._renderer = Renderer(settings)
        # The kernel's state after our last transaction; None: somebody else may have changed something since.
        self._state: State | None = None
        self._bytes_at_once = kernel.safe_bytes
        self._unchecked = False
        self._rules = 0  # approximately
        self._is_alone = False  # no rules of ours are in the other variant
        self._knows_format = False  # iptables-save has printed correct rules as they were written

    @property
    def watched(self) -> Watched | None:
        """Our chains, in the nft variant. The kernel sends no notifications of the legacy variant."""
        if self._kernel.variant != "nft":
            return None
        return Watched(frozenset(TABLES), ("KUBE-", *{jump.chain for jump in jumps()}))

    @property
    def settings(self) -> Settings:
        return self._renderer.settings

    @property
    def families(self) -> tuple[Family, ...]:
        return self._kernel.families

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""
        self._renderer = Renderer(settings)

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """Return None: this mode supports all that a Frontend can ask for."""
        return None

    async def apply(self, updates: Sequence[Update]) -> int:
        """Apply the updates to the kernel. Returns the number of rules and chains written."""
        update = merge_updates(updates)
        transaction = self._renderer.change(update.changes, update.old_cluster_ips, update.new_cluster_ips)
        if transaction:
            if self._state != self._kernel.state() and not transaction.fits(self._bytes_at_once):
                raise Disturbed("in parts, rules are changed by their numbers, which another program may have changed")
            await self._send(transaction)
        return transaction.size()

    async def sync(self, table: FrontendTable) -> int:
        """Make the kernel hold the table's Frontends and nothing else. Returns the number of chains and rules."""
        size = await self._sync(table)
        self._unchecked = False
        if not self._is_alone:
            await self._remove_from_other_variants()
            self._is_alone = True
        return size

    async def repair(self, table: Frontends, observed: ObservedCommits) -> Repair | None:
        """Repair what others' transactions changed. None: some transactions are unknown, so `verify` has to look."""
        state = self._kernel.state()
        numbers = self._kernel.between(self._state, state) if self._state is not None else None
        if numbers is None or len(numbers) > len(observed) or not all(number in observed for number in numbers):
            return None
        changed = {
            (FAMILIES[one.family], Chain(one.table, one.chain)): not one.is_deleted
            for number in numbers
            for one in observed[number]
            if one.family in FAMILIES
        }
        kernel: dict[Family, dict[str, Table]] = {}
        for family, (name_of_table, name) in changed:
            if not name.startswith("KUBE-"):
                rules = await self._kernel.list_chain(family, name_of_table, name)
                kernel.setdefault(family, {}).setdefault(name_of_table, Table()).chains[name] = rules
        transaction = self._renderer.repair(changed, kernel)
        if not transaction.fits(self._bytes_at_once):
            return None  # to send it in parts, the present rules of each chain have to be known
        self._state = state
        # The notification of a renamed chain lacks its old name, so everything is compared when there is time.
        self._unchecked |= bool(numbers)
        try:
            await self._send(transaction)
        except (Disturbed, NotFound, Refused) as error:
            log.debug("reading everything, since the kernel differs from its notifications: %s", error)
            return None
        return Repair(structure=bool(transaction), elements=transaction.size())

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        """Repair what somebody else changed. None: nothing was wrong.

        Compares all rules whenever anybody has changed anything. The nft variant, where observed edits are repaired
        anyway, compares rules that are expensive to list only if `thoroughly`; otherwise it looks for the canary
        chains. A replaced rule in the legacy variant may leave the sizes unchanged, so there `thoroughly` compares all
        rules that are cheap to list, whether the sizes changed or not.
        """
        state = self._kernel.state()
        is_observed, is_cheap = self._kernel.variant == "nft", self._rules <= _CHEAP_TO_LIST
        if state == self._state and not (thoroughly and (self._unchecked or (is_cheap and not is_observed))):
            return None
        if is_observed and not thoroughly and not is_cheap and await self._has_canaries():
            self._state, self._unchecked = state, True
            return None
        self._state, self._unchecked = state, False
        transaction = await self._compare(table)
        if not transaction:
            self._knows_format = True
            return None
        await self._send(transaction)
        if self._renderer.compares_text and not self._knows_format:
            self._knows_format = not await self._compare(table)
            self._renderer.compares_text = self._knows_format
            if not self._knows_format:
                log.info(UNKNOWN_FORMAT)
        return Repair(structure=True, elements=transaction.size())

    async def validate(self, table: FrontendTable) -> None:
        """Raise iptables-restore's error for these Frontends. Does not find what only the kernel would reject."""
        for family, text in Renderer(self.settings).full(table, table.cluster_ips(), {}).texts().items():
            await self._kernel.check(family, text)

    async def let_through(self, address: str, port: int) -> bool:
        """Exempt the address at the head of each chain that built-in chains jump to, in both variants."""
        done = await _let_through(self._kernel, address, port)
        for variant in self._kernel.other_variants():
            with contextlib.closing(Kernel(variant)) as kernel:
                done |= await _let_through(kernel, address, port)
        return done

    async def remove(self) -> bool:
        """Remove all our chains and jumps, in both variants. False: there were none."""
        self._state = None
        removed = await _remove(self._kernel, self.settings)
        return await self._remove_from_other_variants() or removed

    async def remove_leftovers(self, mode: str, *, is_last: bool = False) -> bool:
        """Remove what kube-proxy, which serves in that mode, does not use. False: there was nothing."""
        if mode not in ("iptables", "ipvs"):
            return await self.remove()
        self._state = None
        removed = await _remove_leftovers(self._kernel, mode)
        for variant in self._kernel.other_variants():
            with contextlib.closing(Kernel(variant)) as kernel:
                removed |= await _remove_leftovers(kernel, mode)
        return removed

    def rule_counts(self, family: Family) -> Mapping[str, int]:
        """Return the number of our rules by table, without jumps in built-in chains, as kube-proxy counts them."""
        counts = self._renderer.rule_counts(family)
        return {table: counts[table] for table in ("filter", "nat")}

    def render(self, table: FrontendTable) -> str:
        """Return the whole ruleset as text for iptables-restore and ip6tables-restore, as for an empty kernel."""
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
        """Return the transaction that makes the kernel hold the table's Frontends."""
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

    async def _sync(self, table: FrontendTable) -> int:
        """Read all chains, and write those that differ. Returns the number of chains and rules."""
        attempts = _ATTEMPTS
        while True:
            limit, self._state = self._bytes_at_once, self._kernel.state()
            transaction = await self._compare(table)
            try:
                await self._send(transaction)
            except TooBig as error:  # some parts may be applied
                if self._bytes_at_once == limit:
                    raise
                log.info("reading the rules again, and sending smaller parts: %s", error)
            except (Disturbed, Refused) as error:
                attempts -= 1
                if isinstance(error, Disturbed) and attempts:
                    log.info("reading the rules again: %s", error)
                    continue
                # Another program that changes rules all the time must not hide what the kernel refuses.
                reason = error.__cause__ if isinstance(error, Disturbed) else error
                if not isinstance(reason, Refused) or not any(part.removed for part in transaction.parts.values()):
                    raise reason or error from None
                # Another program's rule may jump to a stale chain, which is emptied then, and stays.
                log.warning("stale chains cannot be removed, emptying them: %s", reason)
                transaction = await self._compare(table)
                for part in transaction.parts.values():
                    part.written.update(dict.fromkeys(part.removed, ()))
                    part.removed.clear()
                await self._send(transaction)
                return transaction.size()
            else:
                return transaction.size()

    async def _send(self, transaction: Transaction) -> None:
        """Apply one transaction for each table, or, where the kernel does not take one so big, several.

        Raises Disturbed instead of the kernel's error if another program changed a table since the rules were read.
        """
        before, self._state = self._state, None
        is_ours_so_far = before is not None and before == self._kernel.state()
        inputs = list(transaction.inputs(self._bytes_at_once))
        if len(inputs) > len(FAMILIES):
            log.info("%d lines are too many for one transaction here; sending them in parts", transaction.size())
        sent = 0
        try:
            for family, text in inputs:
                await self._kernel.restore(family, text)
                sent += text.count("COMMIT\n")
        except TooBig:
            # For the full sync that follows.
            self._bytes_at_once = max(self._bytes_at_once // 2, min(self._bytes_at_once, _LEAST_BYTES))
            raise
        except (NotFound, Refused) as error:
            if before is None or self._kernel.state_after(before, sent + error.applied) == self._kernel.state():
                raise
            raise Disturbed(f"another program changed the rules meanwhile: {error}") from error
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
    for family, text in transaction.inputs(kernel.safe_bytes):
        await kernel.restore(family, text)
    return bool(transaction)


async def _remove_leftovers(kernel: Kernel, mode: str) -> bool:
    transaction = kube_proxy_takeover.removal(await _read(kernel, (4, 6)), mode)
    for family, text in transaction.inputs(kernel.safe_bytes):
        await kernel.restore(family, text)
    return bool(transaction)
