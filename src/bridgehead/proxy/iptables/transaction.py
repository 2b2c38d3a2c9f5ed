"""A change of iptables as a value and as text, and the comparison of chains with what the kernel has.

Pure: no I/O, no clock, no randomness.

The iptables mode and the ipvs mode use it, each for its own chains: `render.py` here and `ipvs/chains.py` fill it,
`apply.py` sends the text.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain as chained
from itertools import groupby, islice
from typing import NamedTuple

from bridgehead.proxy.address_texts import Family

from .chains import (
    CLUSTER_IPS,
    EXTERNAL_SERVICES,
    FILTER_SERVICES,
    PROXY_FIREWALL,
    REJECT,
    TABLES,
    Chain,
    Jump,
    Rules,
    target_of,
)
from .readback import Table, as_printed

Tables = Mapping[str, Table]  # of one family, by name, without those that do not exist
EMPTY = Table()

# Sections of one input. More would save little: the start of iptables-restore takes a twentieth of the time of eight
# sections. Fewer would be better for a proxy that is killed, since an iptables-restore that it started applies its
# whole input.
SECTIONS_AT_ONCE = 8


@dataclass
class Part:
    """The part of a transaction for one table of one family.

    `written` chains are created or emptied, and get these rules. `lines` change built-in chains after that. `removed`
    chains are emptied and deleted last. `present`: the rules that written chains have before; a chain that is not in
    it is new.
    """

    present: dict[str, Sequence[str]] = field(default_factory=dict)
    written: dict[str, Rules] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.written or self.lines or self.removed)


@dataclass
class Transaction:
    """One change of the kernel. `texts` is the whole; `chunks` is for kernels that do not take so much at once."""

    parts: dict[tuple[Family, str], Part] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.parts.values())

    def part(self, family: Family, table: str) -> Part:
        return self.parts.setdefault((family, table), Part())

    def size(self) -> int:
        """Return the number of rules and chains that are written or removed."""
        return sum(
            sum(map(len, part.written.values())) + len(part.written) + len(part.removed) + len(part.lines)
            for part in self.parts.values()
        )

    def texts(self) -> dict[Family, str]:
        """Return the input of iptables-restore and ip6tables-restore: each table once, each all or nothing."""
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

    def fits(self, limit: int) -> bool:
        """Return whether all of it is at most `limit` bytes of netlink messages."""
        if self.size() * _MOST_BYTES <= limit:
            return True
        lines = (chained(_heads(part), _rules(part), part.lines, _deletions(part)) for part in self.parts.values())
        return sum(_bytes_of(line) for some in lines for line in some) <= limit

    def inputs(self, limit: int) -> Iterator[tuple[Family, str]]:
        """Return inputs for iptables-restore, to be applied one after the other.

        If it `fits`, it is one input for each family. Otherwise each input has several sections of `chunks`, which
        iptables-restore applies one after the other, up to the first that is refused.
        """
        if self.fits(limit):
            yield from self.texts().items()
            return
        for family, chunks in groupby(self.chunks(limit), key=lambda chunk: chunk[0]):
            while sections := [text for _, text in islice(chunks, SECTIONS_AT_ONCE)]:
                yield family, "".join(sections)

    def chunks(self, limit: int) -> Iterator[tuple[Family, str]]:
        """Return several texts of at most about `limit` bytes of netlink messages, to be applied one after the other.

        After each text connections go where they went before or where they go in the end. Chains come before chains
        that jump to them. A chain is emptied and filled at once; if it is too long for that, new rules are added before
        others are deleted. Table filter rejects or drops what table nat does not translate: rules that do this are
        added before table nat translates less, and deleted after it translates more. decisions/0020.

        Built-in chains jump to new chains last: the kernel checks all rules that packets can reach in every
        transaction.
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
        self,
        family: Family,
        tables: Tables,
        wanted: Mapping[Chain, Rules],
        jumps: Iterable[Jump],
        *,
        compares_text: bool,
    ) -> None:
        """Write these chains and jumps where they differ from what the kernel has.

        `compares_text`: compare rules as they are printed; else only their number.
        """
        for chain, rules in wanted.items():
            present = tables.get(chain.table, EMPTY).chains.get(chain.name)
            if present is None or not _is_same(present, rules, compares_text):
                self.part(family, chain.table).written[chain.name] = rules
                if present is not None:
                    self.part(family, chain.table).present[chain.name] = present
        for jump in jumps:
            rules_present = tables.get(jump.table, EMPTY).chains.get(jump.chain, ())
            matching = [rule for rule in rules_present if target_of(rule) == jump.target]
            if not _is_same(matching, (jump.rule,), compares_text):
                lines = self.part(family, jump.table).lines
                lines.extend(f"-D {jump.chain} {rule}" for rule in matching)
                lines.append(f"-I {jump.chain} {jump.rule}")

    def remove(
        self, family: Family, tables: Tables, is_ours: Callable[[str, str], bool], keep: Container[Chain] = ()
    ) -> None:
        """Remove our chains, by table and name, except those to keep; rules of other chains that jump to them first."""
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


def _is_same(present: Sequence[str], wanted: Rules, compares_text: bool) -> bool:
    return list(present) == as_printed(wanted) if compares_text else len(present) == len(wanted)


def _depth(chain: str) -> tuple[int, str]:
    """Return a sort key by which chains come before those that jump to them."""
    return next((rank for rank, prefix in enumerate(_DEPTHS) if chain.startswith(prefix)), len(_DEPTHS)), chain


_DEPTHS = ("KUBE-MARK-MASQ", "KUBE-REFUSE", "KUBE-SEP-", "KUBE-SV", "KUBE-EXT-", "KUBE-FW-")


class _Unit(NamedTuple):
    """Lines that are applied together, and the size of their netlink messages in bytes."""

    lines: list[str]
    size: int


def _unit(lines: Sequence[str]) -> _Unit:
    return _Unit(list(lines), sum(map(_bytes_of, lines)))


class _Steps:
    """The steps that change one table in parts.

    `first` creates, fills and changes chains, and adds jumps to them; `last` deletes rules and chains.
    """

    def __init__(self, part: Part, table: str, limit: int) -> None:
        self.first: list[_Unit] = []
        self.last: list[_Unit] = []
        for name in sorted(part.written, key=_depth):
            rules, present = part.written[name], part.present.get(name)
            is_rejecting = Chain(table, name) in _REJECTING
            whole = _unit([_head(name), *(f"-A {name} {rule}" for rule in rules)])
            if not is_rejecting and whole.size <= limit:
                # Rules may jump to a present chain that rejects. It rejects again when table nat translates again.
                (self.last if Chain(table, name) == REJECT and present is not None else self.first).append(whole)
                continue
            if present is None:
                self.first.append(_unit([_head(name)]))
            added, deleted = _edits(name, present or (), rules)
            for line in added:
                # A client that will be served must not be rejected before.
                is_late = Chain(table, name) == CLUSTER_IPS or (is_rejecting and target_of(line) == CLUSTER_IPS.name)
                (self.last if is_late else self.first).append(_unit([line]))
            self.last += deleted
        waiting: list[str] = []
        for line in part.lines:
            waiting.append(line)
            if line.startswith("-I"):  # replaces the rules that were deleted before it
                self.first.append(_unit(waiting))
                waiting = []
        self.last += (_unit([line]) for line in waiting)
        self.last += (_unit([_head(name), f"-X {name}"]) for name in sorted(part.removed, key=_depth, reverse=True))


_REJECTING = frozenset((FILTER_SERVICES, EXTERNAL_SERVICES, PROXY_FIREWALL, CLUSTER_IPS))


def _edits(name: str, present: Sequence[str], wanted: Rules) -> tuple[list[str], list[_Unit]]:
    """Return lines that add missing rules to a chain at their positions, and what then deletes the others.

    iptables-nft sends the whole rule to delete it, though its line has only the number.
    """
    old, new = as_printed(present), as_printed(wanted)
    common = set(old) & set(new)
    kept = [rule for rule in old if rule in common]
    if len(kept) != len(common) or kept != [rule for rule in new if rule in common]:
        common = set()  # another order: add all new rules before the old ones
    added: list[str] = []
    stale: list[tuple[int, int]] = []  # rules to delete: the index in `old`, and how many rules are added before it
    position = 0
    for rule, printed in zip(wanted, new, strict=True):
        if printed in common:
            while old[position] != printed:
                stale.append((position, len(added)))
                position += 1
            position += 1
        elif position == len(old):
            added.append(f"-A {name} {rule}")
        else:
            added.append(f"-I {name} {position + len(added) + 1} {rule}")
    stale += ((index, len(added)) for index in range(position, len(old)))
    return added, [
        _Unit([f"-D {name} {index + before + 1}"], _bytes_of(f"-D {name} {old[index]}"))
        for index, before in reversed(stale)
    ]


def _packed(units: Iterable[_Unit], limit: int) -> Iterator[list[str]]:
    """Return groups of lines, of as many steps each as fit into `limit` bytes."""
    lines: list[str] = []
    size = 0
    for unit in units:
        if lines and size + unit.size > limit:
            yield lines
            lines, size = [], 0
        lines += unit.lines
        size += unit.size
    if lines:
        yield lines


_MOST_BYTES = 1400  # of any line's message, with a few ranges to exclude


def _bytes_of(line: str) -> int:
    """Return an upper bound of the size of a line's netlink messages, in bytes, as iptables-nft 1.8 makes them.

    A rule that is added or deleted has its table, chain, counters and verdict, a comparison for each address, protocol
    and port, a block for each match, and its comment, padded to 256 bytes.
    """
    if line.startswith((":", "-X")):
        return 160  # empty or create a chain, delete one
    return (
        240
        + 120 * (line.count(" -s ") + line.count(" -d ") + line.count(" -m "))
        + 90 * line.count(" -p ")
        + (190 if " --comment " in line else 0)
        + (170 if " -m recent " in line else 0)
        + (120 if " -m conntrack " in line else 0)
    )


def _head(name: str) -> str:
    return f":{name} - [0:0]"


def _heads(part: Part) -> Iterator[str]:
    """Return lines that create or empty all chains: targets have to exist, and chains that are deleted have to be
    empty.

    Sorted by name, since iptables-nft-restore keeps a sorted list, and takes seconds for 10,000 chains in another
    order.
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
