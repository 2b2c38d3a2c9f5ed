"""A change of the tables as a value, and as nft text; and the difference of wanted elements and the kernel's.

Pure: no I/O, no clock, no randomness.

`text` is one transaction of the kernel, which no packet sees half of. If the kernel does not take one so big, `chunks`
splits it into several, and no packet is worse off between them: decisions/0020.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.frontends import FrontendKey

from .chains import containers, family_keyword

# Elements are added in this order and deleted in the reverse order: elements that others depend on come first.
CONTAINERS = tuple(reversed(containers(4)))
SERVICES = "services"  # its elements lead connections to a Frontend's chain; all others are used there
COUNTED = ("cluster-ips", "hairpin")  # whose elements several Frontends may need
_REJECTED = "cluster-ips"  # connections to these are rejected unless `services` has an element for them

_find_targets = re.compile(r"(?:goto|jump) ([^\s,]+)").findall


class Container(NamedTuple):
    """A set or map of one of our tables."""

    family: Family
    name: str


Elements = dict[Container, list[str]]


@dataclass
class Transaction:
    """One change of the kernel.

    `structure` are statements, each on a line of its own, those of chains as `render._open` writes them; `removed` the
    keys of elements; `added` whole elements; `closing` statements again.
    """

    table: str
    structure: list[str] = field(default_factory=list)
    removed: Elements = field(default_factory=dict)
    added: Elements = field(default_factory=dict)
    closing: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.structure or self.removed or self.added or self.closing)

    def change_elements(self, container: Container, wanted: Sequence[str], present: Mapping[str, str]) -> None:
        """Add the difference of the wanted elements and those that the kernel has, values by keys."""
        if not present:
            if wanted:
                self.added[container] = list(wanted)
            return
        keys = set()
        for element in wanted:
            key, value = key_of(element), element.partition(" : ")[2]
            keys.add(key)
            had = present.get(key)
            if had == value:
                continue
            if had is not None:
                self.removed.setdefault(container, []).append(key)
            self.added.setdefault(container, []).append(element)
        for key in sorted(present.keys() - keys):
            self.removed.setdefault(container, []).append(key)

    def size(self) -> int:
        """Return the number of elements that are added or removed."""
        return sum(map(len, self.removed.values())) + sum(map(len, self.added.values()))

    def weight(self) -> int:
        """Return the size of the netlink messages, in units of one element's message (100 bytes)."""
        elements = (*self.removed.values(), *self.added.values())
        return (
            sum(map(_weight_of_statement, (*self.structure, *self.closing)))
            + sum(sum(map(_weight, some)) for some in elements)
            + len(elements)
        )

    def text(self) -> str:
        """Return the whole as one text for nft."""
        return _lines((*self.structure, *self._elements(CONTAINERS), *self.closing))

    def chunks(self, limit: int) -> Iterator[str]:
        """Return several texts for nft of at most that weight each, to be applied one after the other.

        After each text the connections of every Frontend go where they went before or where they go in the end:

        1. Each chain gets its rules at once, chains before those that refer to them.
        2. Frontends that only gain elements: their endpoints first, their elements in `services` last.
        3. Each other Frontend as a whole. A Frontend that is heavier than `limit` is split: new and replaced endpoints,
        then
           its element in `services`, then endpoints that it loses.
        4. New cluster IPs, whose undefined ports are rejected from then on; then those that are removed.
        5. Chains, maps and tables that are not used any more.
        """
        yield from _packed(_units(self.structure), limit)
        changed = {
            frontend_of(key)
            for container, keys in self.removed.items()
            if container.name not in COUNTED
            for key in keys
        }
        yield from self._gains(changed, limit)
        yield from self._frontends(changed, limit)
        for verb, elements, name in (
            ("add", self.added, _REJECTED),
            ("delete", self.removed, _REJECTED),
            ("delete", self.removed, "hairpin"),
        ):
            yield from self._statements(verb, elements, (name,), limit)
        yield from _packed(([line] for line in self.closing), limit)

    def _gains(self, changed: Collection[FrontendKey], limit: int) -> Iterator[str]:
        """Return texts that add the elements of Frontends that are not in `changed`."""
        gains = self.added
        if changed:
            gains = {
                container: lines
                if container.name in COUNTED
                else [line for line in lines if frontend_of(key_of(line)) not in changed]
                for container, lines in gains.items()
            }
        names = tuple(name for name in CONTAINERS if name not in (SERVICES, _REJECTED))
        yield from self._statements("add", gains, (*names, SERVICES), limit)

    def _frontends(self, changed: Collection[FrontendKey], limit: int) -> Iterator[str]:
        """Return texts that change whole Frontends, as many in each as fit."""
        wholes: dict[FrontendKey, Transaction] = {key: Transaction(self.table) for key in sorted(changed)}
        for name in ("removed", "added"):
            elements: Elements = getattr(self, name)
            for container, lines in elements.items():
                if container.name in COUNTED:
                    continue
                for line in lines:
                    whole = wholes.get(frontend_of(key_of(line)))
                    if whole is not None:
                        getattr(whole, name).setdefault(container, []).append(line)
        part, weight = Transaction(self.table), 0
        for whole in wholes.values():
            its = whole.weight()
            if weight and weight + its > limit:
                yield part.text()
                part, weight = Transaction(self.table), 0
            if its > limit:
                yield from whole._of_one_frontend(limit)
            else:
                part._include(whole)
                weight += its
        if weight:
            yield part.text()

    def _of_one_frontend(self, limit: int) -> Iterator[str]:
        """Return texts that change one Frontend, which is heavier than `limit`."""
        names = tuple(name for name in CONTAINERS if name != SERVICES)
        for name in names:
            for container, lines in self.added.items():
                if container.name == name:
                    stale = set(self.removed.get(container, ()))
                    units = ((key_of(line) if key_of(line) in stale else "", line) for line in lines)
                    yield from self._replacements(container, units, limit)
        verdict = Transaction(self.table)
        for whole, part in ((self.removed, verdict.removed), (self.added, verdict.added)):
            part.update((container, lines) for container, lines in whole.items() if container.name == SERVICES)
        if verdict:
            yield verdict.text()
        losses: Elements = {}
        for container, keys in self.removed.items():
            kept = set(map(key_of, self.added.get(container, ())))
            losses[container] = [key for key in keys if key not in kept]
        yield from self._statements("delete", losses, tuple(reversed(names)), limit)

    def _replacements(self, container: Container, units: Iterable[tuple[str, str]], limit: int) -> Iterator[str]:
        """Return texts that add elements. `units`: an element, and the key that is deleted before it ("": none)."""
        part, weight = Transaction(self.table), 0
        for key, line in units:
            its = _weight(line) + (_weight(key) if key else 0)
            if weight and weight + its + 2 > limit:
                yield part.text()
                part, weight = Transaction(self.table), 0
            if key:
                part.removed.setdefault(container, []).append(key)
            part.added.setdefault(container, []).append(line)
            weight += its
        if weight:
            yield part.text()

    def _include(self, other: Transaction) -> None:
        for ours, its in ((self.removed, other.removed), (self.added, other.added)):
            for container, lines in its.items():
                ours.setdefault(container, []).extend(lines)

    def _statements(self, verb: str, elements: Elements, names: Iterable[str], limit: int) -> Iterator[str]:
        """Return texts that add or delete the elements of these containers, one container after the other."""
        for name in names:
            for family in (4, 6):
                some, weight = list[str](), 1
                for line in elements.get(Container(family, name), ()):
                    if some and weight + _weight(line) > limit:
                        yield _lines((self._statement(verb, family, name, some),))
                        some, weight = [], 1
                    some.append(line)
                    weight += _weight(line)
                if some:
                    yield _lines((self._statement(verb, family, name, some),))

    def _elements(self, names: tuple[str, ...]) -> Iterator[str]:
        for verb, elements, ordered in (
            ("delete", self.removed, tuple(reversed(names))),
            ("add", self.added, names),
        ):
            for name in ordered:
                for family in (4, 6):
                    lines = elements.get(Container(family, name))
                    if lines:
                        yield self._statement(verb, family, name, lines)

    def _statement(self, verb: str, family: Family, name: str, elements: list[str]) -> str:
        listed = ",\n  ".join(elements)
        return f"{verb} element {family_keyword(family)} {self.table} {name} {{\n  {listed}\n}}"


def key_of(element: str) -> str:
    """Return the key of an element, which may have a comment and a value."""
    return element.partition(" : ")[0].partition(" comment ")[0]


def frontend_of(key: str) -> FrontendKey:
    """Return the Frontend that an element with this key belongs to; for an unknown key, one that does not exist."""
    match key.split(" . "):
        case [address, protocol, port, *_] if port.isdigit():
            return FrontendKey(address, protocol, int(port))
    return FrontendKey("", "", 0)


def _units(structure: Iterable[str]) -> Iterator[list[str]]:
    """Return groups of statements. A group empties and fills a chain, after the groups of chains it refers to."""
    chains: dict[tuple[str, str], list[str]] = {}
    for line in structure:
        match line.split(" ", 5):
            case ["flush" | "add", "chain" | "rule" as kind, family, _, name, *_] if not (
                kind == "chain" and line.startswith("add")
            ):
                chains.setdefault((family, name), []).append(line)
            case _:
                yield [line]
    depths: dict[tuple[str, str], int] = {}

    def depth(chain: tuple[str, str]) -> int:
        if chain not in depths:
            depths[chain] = 0  # in case the chain refers to itself
            targets = {(chain[0], name) for line in chains[chain] for name in _find_targets(line)}
            depths[chain] = 1 + max((depth(target) for target in targets if target in chains), default=0)
        return depths[chain]

    yield from (chains[chain] for chain in sorted(chains, key=depth))


def _packed(units: Iterable[list[str]], limit: int) -> Iterator[str]:
    """Return texts of as many groups of statements each as fit."""
    lines, weight = list[str](), 0
    for unit in units:
        its = sum(map(_weight_of_statement, unit))
        if lines and weight + its > limit:
            yield _lines(lines)
            lines, weight = [], 0
        lines += unit
        weight += its
    if lines:
        yield _lines(lines)


def _weight(element: str) -> int:
    """Return an element's weight: an IPv4 endpoint has 60 bytes, one with IPv6 addresses 84, a comment its length."""
    return 1 + len(element) // 64


def _weight_of_statement(line: str) -> int:
    """Return the weight of a statement: a rule has 2.4 to 3 bytes for each letter."""
    return 1 + len(line) // 32


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
