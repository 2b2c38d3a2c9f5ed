"""Frontends as iptables rules: kube-proxy's chains under kube-proxy's names. README.md explains them.

Two ways in, both pure. `Renderer.change` turns `Change`s into the transaction that brings the kernel from the old
Frontends to the new; it holds only chains that differ. `Renderer.full` compares everything that should be there with
what the kernel has (`readback.Table`) and sends the chains that differ, which for an empty kernel is the whole ruleset.
`mode.py` calls both and applies what comes out.

Every word of the text comes from here or was checked: addresses and ranges are canonical
(`frontends.canonical_address`), ports are ints, and a Service's name appears only in a comment, and only when it is
made of harmless characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bridgehead.proxy.changes import Change
from bridgehead.proxy.frontends import Family, Frontend, FrontendKey, family_of
from bridgehead.proxy.mode import Settings

from .chains import (
    CLUSTER_IPS,
    SHARED,
    TABLES,
    Chain,
    Rules,
    closing_rules,
    cluster_ip_rules,
    fixed_chains,
    is_ours,
    jumps,
    of_family,
)
from .ports import PortKey, PortRules, port_of, render_port
from .readback import Table, as_printed

Kernel = Mapping[Family, Mapping[str, Table]]


@dataclass
class Part:
    """What is sent to one table of one family.

    `written` chains are emptied, or made, and get these rules; `removed` are emptied and deleted after that;
    `lines` concern built-in chains, and come between.
    """

    written: dict[str, Rules] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.written or self.lines or self.removed)


@dataclass
class Transaction:
    """One change of the kernel as a value. `texts` sends it whole; `chunks` is for kernels that refuse its size."""

    parts: dict[tuple[Family, str], Part] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.parts.values())

    def part(self, family: Family, table: str) -> Part:
        return self.parts.setdefault((family, table), Part())

    def size(self) -> int:
        """The number of rules and chains it writes or removes."""
        return sum(
            sum(map(len, part.written.values())) + len(part.written) + len(part.removed) + len(part.lines)
            for part in self.parts.values()
        )

    def texts(self) -> dict[Family, str]:
        """What iptables-restore and ip6tables-restore get: each table once, each all or nothing."""
        found: dict[Family, str] = {}
        for family in (4, 6):
            tables = []
            for table in TABLES:
                part = self.parts.get((family, table))
                if part:
                    tables.append(_text(table, (*_heads(part), *_rules(part), *part.lines, *_deletions(part))))
            if tables:
                found[family] = "".join(tables)
        return found

    def chunks(self, limit: int) -> Iterator[tuple[Family, str]]:
        """The same in texts of some `limit` lines, to be applied one after the other: what is referred to first."""
        for family in (4, 6):
            for table in TABLES:
                part = self.parts.get((family, table))
                if not part:
                    continue
                rules = _rules(Part({name: part.written[name] for name in sorted(part.written, key=_depth)}))
                lines = [*_heads(part), *rules, *part.lines, *_deletions(part)]
                for start in range(0, len(lines), limit):
                    yield family, _text(table, lines[start : start + limit])


class Renderer:
    """Knows the Frontends of each Service port, and each port's lines in shared chains; the rest it is told."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.compares_words = True  # False: only the number of a chain's rules, for other versions of iptables-save
        self._ports: dict[PortKey, dict[FrontendKey, Frontend]] = {}
        self._shared: dict[PortKey, dict[Chain, Rules]] = {}
        self._cluster_ips: Counter[str] = Counter()

    def change(
        self,
        changes: Iterable[Change],
        old_cluster_ips: Iterable[str] = (),
        new_cluster_ips: Iterable[str] = (),
    ) -> Transaction:
        """The transaction for these changes. The kernel must hold what the earlier transactions made."""
        before: dict[PortKey, dict[FrontendKey, Frontend]] = {}
        for old, new in changes:
            for frontend, is_old in ((old, True), (new, False)):
                if frontend is None:
                    continue
                port = port_of(frontend)
                present = self._ports.setdefault(port, {})
                if port not in before:
                    before[port] = dict(present)
                if is_old:
                    present.pop(frontend.key, None)
                else:
                    present[frontend.key] = frontend
        transaction = Transaction()
        stale: set[tuple[Family, Chain]] = set()
        for port in sorted(before):
            was = render_port(port, before[port].values(), self.settings)
            now = render_port(port, self._ports[port].values(), self.settings)
            self._remember(port, now)
            for chain in was.own.keys() - now.own.keys():
                transaction.part(port.family, chain.table).removed.append(chain.name)
            for chain, rules in now.own.items():
                if was.own.get(chain) != rules:
                    transaction.part(port.family, chain.table).written[chain.name] = rules
            for chain in SHARED:
                if was.shared.get(chain) != now.shared.get(chain):
                    stale.add((port.family, chain))
        for family in self._count_cluster_ips(old_cluster_ips, new_cluster_ips):
            if of_family(self.settings.service_cidrs, family):
                stale.add((family, CLUSTER_IPS))
        for family, chain in sorted(stale):
            transaction.part(family, chain.table).written[chain.name] = self._rules_of(family, chain)
        for part in transaction.parts.values():
            part.removed.sort()
        return transaction

    def full(self, frontends: Iterable[Frontend], cluster_ips: Iterable[str], kernel: Kernel) -> Transaction:
        """The transaction that makes the kernel's chains of ours hold these Frontends and nothing else.

        `kernel` is what was read of each family's tables, without those that are absent. Chains that are right are
        not touched.
        """
        self._ports.clear()
        self._shared.clear()
        self._cluster_ips = Counter(cluster_ips)
        for frontend in frontends:
            self._ports.setdefault(port_of(frontend), {})[frontend.key] = frontend
        transaction = Transaction()
        for family in (4, 6):
            tables = kernel.get(family, {})
            if family in self.settings.families:
                self._compare(transaction, family, tables)
            else:
                _remove(transaction, family, tables)
        return transaction

    def removal(self, kernel: Kernel) -> Transaction:
        """The transaction that takes everything of ours out of these tables."""
        transaction = Transaction()
        for family, tables in kernel.items():
            _remove(transaction, family, tables)
        return transaction

    def chains(self, family: Family) -> dict[Chain, Rules]:
        """All chains that the family's tables should have now, with their rules."""
        found = fixed_chains(family)
        for port in sorted(self._ports):
            if port.family == family:
                rendered = render_port(port, self._ports[port].values(), self.settings)
                self._remember(port, rendered)
                found.update(rendered.own)
        for chain in SHARED:
            found[chain] = self._rules_of(family, chain)
        if of_family(self.settings.service_cidrs, family):
            found[CLUSTER_IPS] = self._rules_of(family, CLUSTER_IPS)
        return found

    def _compare(self, transaction: Transaction, family: Family, tables: Mapping[str, Table]) -> None:
        """Chains that differ are written, stale ones removed, jumps that lack are inserted."""
        wanted = self.chains(family)
        for chain, rules in wanted.items():
            present = tables.get(chain.table, _EMPTY).chains.get(chain.name)
            if present is None or not self._is_same(present, rules):
                transaction.part(family, chain.table).written[chain.name] = rules
        for table in TABLES:
            present_chains = tables.get(table, _EMPTY).chains
            for name in sorted(present_chains):
                if is_ours(table, name) and Chain(table, name) not in wanted:
                    transaction.part(family, table).removed.append(name)
        for jump in jumps():
            there = [
                rule
                for rule in tables.get(jump.table, _EMPTY).chains.get(jump.chain, ())
                if rule.rpartition("-j ")[2] == jump.target
            ]
            if not self._is_same(there, (jump.rule,)):
                lines = transaction.part(family, jump.table).lines
                lines.extend(f"-D {jump.chain} {rule}" for rule in there)
                lines.append(f"-I {jump.chain} {jump.rule}")

    def _is_same(self, present: Sequence[str], wanted: Rules) -> bool:
        if self.compares_words:
            return list(present) == as_printed(wanted)
        return len(present) == len(wanted)

    def _rules_of(self, family: Family, chain: Chain) -> Rules:
        """The whole of a chain that all Services share."""
        if chain == CLUSTER_IPS:
            return cluster_ip_rules(sorted(ip for ip in self._cluster_ips if family_of(ip) == family))
        lines = [
            line
            for port in sorted(self._shared)
            if port.family == family
            for line in self._shared[port].get(chain, ())
        ]  # fmt: skip
        return (*lines, *closing_rules(chain, family, self.settings))

    def _remember(self, port: PortKey, rules: PortRules) -> None:
        if not self._ports[port]:
            del self._ports[port]
        if rules.shared:
            self._shared[port] = rules.shared
        else:
            self._shared.pop(port, None)

    def _count_cluster_ips(self, old: Iterable[str], new: Iterable[str]) -> set[Family]:
        """Count; the families in which the set of addresses changed."""
        steps = Counter(new)
        steps.subtract(Counter(old))
        changed = set()
        for address, step in steps.items():
            before = self._cluster_ips[address]
            after = before + step
            if after > 0:
                self._cluster_ips[address] = after
            else:
                del self._cluster_ips[address]
            if (before > 0) != (after > 0):
                changed.add(family_of(address))
        return changed


_EMPTY = Table()


def _remove(transaction: Transaction, family: Family, tables: Mapping[str, Table]) -> None:
    """Jumps first, in lines of their own, then the chains they led to."""
    for name, table in tables.items():
        if name not in TABLES:
            continue
        ours = sorted(chain for chain in table.chains if is_ours(name, chain))
        for chain, rules in table.chains.items():
            if chain not in ours:
                stale = [rule for rule in rules if rule.rpartition("-j ")[2] in ours]
                transaction.part(family, name).lines.extend(f"-D {chain} {rule}" for rule in stale)
        transaction.part(family, name).removed.extend(ours)


def _depth(chain: str) -> int:
    """Chains that are only jumped to come before those that jump to them."""
    return next((rank for rank, word in enumerate(_DEPTHS) if chain.startswith(word)), len(_DEPTHS))


_DEPTHS = ("KUBE-MARK-MASQ", "KUBE-SEP-", "KUBE-SV", "KUBE-EXT-", "KUBE-FW-")


def _heads(part: Part) -> Iterator[str]:
    """Makes or empties every chain, since what is referred to has to be there, and what goes has to be empty.

    In the order of names: iptables-nft-restore keeps a sorted list, and takes seconds for 10,000 in any other order.
    """
    return (f":{name} - [0:0]" for name in sorted((*part.written, *part.removed)))


def _rules(part: Part) -> Iterator[str]:
    for name, rules in part.written.items():
        for rule in rules:
            yield f"-A {name} {rule}"


def _deletions(part: Part) -> Iterator[str]:
    return (f"-X {name}" for name in part.removed)


def _text(table: str, lines: Iterable[str]) -> str:
    return "".join((f"*{table}\n", *(f"{line}\n" for line in lines), "COMMIT\n"))
