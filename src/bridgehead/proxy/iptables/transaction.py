"""One change of iptables as a value, and the comparison of chains with what the kernel has. Pure.

Of the iptables mode and of the ipvs mode, each of which has chains of its own: `render.py` here and `ipvs/chains.py`
say what they want, `apply.py` sends the text.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bridgehead.proxy.addresses import Family

from .chains import TABLES, Chain, Jump, Rules, target_of
from .readback import Table, as_printed

Tables = Mapping[str, Table]  # of one family, by name, without those that are absent
EMPTY = Table()


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

    def write(
        self, family: Family, tables: Tables, wanted: Mapping[Chain, Rules], jumps: Iterable[Jump], *, words: bool
    ) -> None:
        """Add what makes these chains right, and the jumps into them. What is right already is not touched.

        `words`: compare rules as they are printed; else only their number.
        """
        for chain, rules in wanted.items():
            present = tables.get(chain.table, EMPTY).chains.get(chain.name)
            if present is None or not _is_same(present, rules, words):
                self.part(family, chain.table).written[chain.name] = rules
        for jump in jumps:
            rules_there = tables.get(jump.table, EMPTY).chains.get(jump.chain, ())
            there = [rule for rule in rules_there if target_of(rule) == jump.target]
            if not _is_same(there, (jump.rule,), words):
                lines = self.part(family, jump.table).lines
                lines.extend(f"-D {jump.chain} {rule}" for rule in there)
                lines.append(f"-I {jump.chain} {jump.rule}")

    def remove(
        self, family: Family, tables: Tables, is_ours: Callable[[str, str], bool], keep: Container[Chain] = ()
    ) -> None:
        """Add what takes away our chains, by table and name, but for those to keep; others' jumps into them first."""
        for table in TABLES:
            chains = tables.get(table, EMPTY).chains
            stale = sorted(name for name in chains if is_ours(table, name) and Chain(table, name) not in keep)
            if not stale:
                continue
            part = self.part(family, table)
            for name, rules in chains.items():
                if not is_ours(table, name):
                    part.lines.extend(f"-D {name} {rule}" for rule in rules if target_of(rule) in stale)
            part.removed.extend(stale)


def _is_same(present: Sequence[str], wanted: Rules, words: bool) -> bool:
    return list(present) == as_printed(wanted) if words else len(present) == len(wanted)


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
