"""One change of iptables as a value, and the comparison of chains with what the kernel has. Pure.

Of the iptables mode and of the ipvs mode, each of which has chains of its own: `render.py` here and `ipvs/chains.py`
say what they want, `apply.py` sends the text.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bridgehead.proxy.addresses import Family

from .chains import (
    CLUSTER_IPS,
    EXTERNAL_SERVICES,
    FILTER_SERVICES,
    PROXY_FIREWALL,
    TABLES,
    Chain,
    Jump,
    Rules,
    target_of,
)
from .readback import Table, as_printed

Tables = Mapping[str, Table]  # of one family, by name, without those that are absent
EMPTY = Table()


@dataclass
class Part:
    """What is sent to one table of one family.

    `written` chains are emptied, or made, and get these rules; `removed` are emptied and deleted after that;
    `lines` concern built-in chains, and come between. `present` are the rules that written chains have before; a chain
    that is not in there is new.
    """

    present: dict[str, Sequence[str]] = field(default_factory=dict)
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
        """The same in texts of some `limit` lines, to be applied one after the other.

        After each of them, whatever comes next, connections go where they went before or where they are to go: chains
        come before who jumps to them, each is emptied and filled at once, and of one that is too long for that, rules
        are added before others are deleted. What is refused or dropped, in table filter, is what table nat does not
        translate: such rules come before that translates less, and go after it translates more. decisions/0020.
        """
        for family in (4, 6):
            steps = {table: _Steps(self.parts.get((family, table), Part()), table, limit) for table in TABLES}
            nat, filter_ = steps["nat"], steps["filter"]
            for table, units in (
                ("mangle", (*steps["mangle"].first, *steps["mangle"].last)),
                ("filter", filter_.first),
                ("nat", (*nat.first, *nat.last)),
                ("filter", filter_.last),
            ):
                for lines in _packed(units, limit):
                    yield family, _text(table, lines)

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
                if present is not None:
                    self.part(family, chain.table).present[chain.name] = present
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


def _depth(chain: str) -> tuple[int, str]:
    """Chains that are only jumped to come before those that jump to them."""
    return next((rank for rank, word in enumerate(_DEPTHS) if chain.startswith(word)), len(_DEPTHS)), chain


_DEPTHS = ("KUBE-MARK-MASQ", "KUBE-REFUSE", "KUBE-SEP-", "KUBE-SV", "KUBE-EXT-", "KUBE-FW-")


class _Steps:
    """What is done to one table in parts, in lines of which those of one unit are applied together.

    `first` makes, fills and changes chains, and leads to them; `last` deletes rules and chains.
    """

    def __init__(self, part: Part, table: str, limit: int) -> None:
        self.first: list[list[str]] = []
        self.last: list[list[str]] = []
        for name in sorted(part.written, key=_depth):
            rules, present = part.written[name], part.present.get(name)
            is_refusing = Chain(table, name) in _REFUSING
            if len(rules) < limit and not is_refusing:
                self.first.append([_head(name), *(f"-A {name} {rule}" for rule in rules)])
                continue
            if present is None:
                self.first.append([_head(name)])
            added, deleted = _edits(name, present or (), rules)
            for line in added:
                # Whoever is to be served must not be refused before.
                is_late = Chain(table, name) == CLUSTER_IPS or (is_refusing and target_of(line) == CLUSTER_IPS.name)
                (self.last if is_late else self.first).append([line])
            self.last += ([line] for line in deleted)
        unit: list[str] = []
        for line in part.lines:
            unit.append(line)
            if line.startswith("-I"):  # in the place of those that were deleted before it
                self.first.append(unit)
                unit = []
        self.last += ([line] for line in unit)
        self.last += ([_head(name), f"-X {name}"] for name in sorted(part.removed, key=_depth, reverse=True))


_REFUSING = frozenset((FILTER_SERVICES, EXTERNAL_SERVICES, PROXY_FIREWALL, CLUSTER_IPS))


def _edits(name: str, present: Sequence[str], wanted: Rules) -> tuple[list[str], list[str]]:
    """Lines that first add to a chain what it lacks, in its place, and then delete the rest."""
    old, new = as_printed(present), as_printed(wanted)
    common = set(old) & set(new)
    kept = [rule for rule in old if rule in common]
    if len(kept) != len(common) or kept != [rule for rule in new if rule in common]:
        common = set()  # it is in another order: all of the new before all of the old
    added: list[str] = []
    stale: list[int] = []  # where rules to delete are in the end
    place = 0
    for rule, printed in zip(wanted, new, strict=True):
        if printed in common:
            while old[place] != printed:
                stale.append(place + len(added) + 1)
                place += 1
            place += 1
        elif place == len(old):
            added.append(f"-A {name} {rule}")
        else:
            added.append(f"-I {name} {place + len(added) + 1} {rule}")
    stale += range(place + len(added) + 1, len(old) + len(added) + 1)
    return added, [f"-D {name} {number}" for number in reversed(stale)]


def _packed(units: Iterable[list[str]], limit: int) -> Iterator[list[str]]:
    """As many at a time as fit."""
    lines: list[str] = []
    for unit in units:
        if lines and len(lines) + len(unit) > limit:
            yield lines
            lines = []
        lines += unit
    if lines:
        yield lines


def _head(name: str) -> str:
    return f":{name} - [0:0]"


def _heads(part: Part) -> Iterator[str]:
    """Makes or empties every chain, since what is referred to has to be there, and what goes has to be empty.

    In the order of names: iptables-nft-restore keeps a sorted list, and takes seconds for 10,000 in any other order.
    """
    return (_head(name) for name in sorted((*part.written, *part.removed)))


def _rules(part: Part) -> Iterator[str]:
    for name, rules in part.written.items():
        for rule in rules:
            yield f"-A {name} {rule}"


def _deletions(part: Part) -> Iterator[str]:
    return (f"-X {name}" for name in part.removed)


def _text(table: str, lines: Iterable[str]) -> str:
    return "".join((f"*{table}\n", *(f"{line}\n" for line in lines), "COMMIT\n"))
