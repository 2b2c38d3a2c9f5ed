"""Frontends as nft text: fixed chains, and a map element for everything that varies. README.md explains the ruleset.

Two ways in, both pure. `Renderer.change` turns `Change`s into the transaction that brings the kernel from the old
Frontends to the new; its length follows the size of the change. `Renderer.full` compares everything that should be
there with what the kernel has (`readback.Table`) and sends the difference, which for an empty kernel is the whole
ruleset. `mode.py` calls both and applies what comes out.

Every word of the text comes from here or was checked: addresses and ranges are canonical
(`frontends.canonical_address`), ports are ints, and a Service's name appears only in a comment, and only when it is
made of harmless characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from bridgehead.proxy.changes import Change
from bridgehead.proxy.frontends import Backend, Family, Frontend, FrontendKey, family_of
from bridgehead.proxy.mode import Settings

from .chains import INSIDE, Chain, affinity_set, containers, fixed_chains, way_of, word
from .readback import Table

TABLE = "bridgehead"

# Elements are added in this order and deleted in the reverse: what is referred to comes before who refers.
CONTAINERS = tuple(reversed(containers(4)))

_is_harmless = re.compile(r"[a-z0-9][a-z0-9./:-]{0,120}").fullmatch

Counted = TypeVar("Counted")


class Container(NamedTuple):
    """A set or map of one of our tables."""

    family: Family
    name: str


@dataclass
class Transaction:
    """One change of the kernel as a value. `text` sends it whole; `chunks` is for kernels that refuse its size."""

    structure: list[str] = field(default_factory=list)
    removed: dict[Container, list[str]] = field(default_factory=dict)
    added: dict[Container, list[str]] = field(default_factory=dict)
    closing: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.structure or self.removed or self.added or self.closing)

    def size(self) -> int:
        """The number of elements it touches."""
        return sum(map(len, self.removed.values())) + sum(map(len, self.added.values()))

    def weight(self) -> int:
        """What the netlink socket has to take, in messages like those of an element."""
        return self.size() + len(self.structure) + len(self.closing)

    def text(self) -> str:
        return _lines((*self.structure, *self._elements(0), *self.closing))

    def chunks(self, limit: int) -> Iterator[str]:
        """The same in texts of at most `limit` elements, to be applied one after the other."""
        for start in range(0, len(self.structure), limit):
            yield _lines(self.structure[start : start + limit])
        for statement in self._elements(limit):
            yield _lines((statement,))
        for start in range(0, len(self.closing), limit):
            yield _lines(self.closing[start : start + limit])

    def _elements(self, limit: int) -> Iterator[str]:
        for verb, elements, names in (
            ("delete", self.removed, tuple(reversed(CONTAINERS))),
            ("add", self.added, CONTAINERS),
        ):
            for name in names:
                for family in (4, 6):
                    lines = elements.get(Container(family, name), ())
                    step = limit or len(lines) or 1
                    for start in range(0, len(lines), step):
                        some = ",\n  ".join(lines[start : start + step])
                        yield f"{verb} element {word(family)} {TABLE} {name} {{\n  {some}\n}}"


class Renderer:
    """Counts how many Frontends use each shared thing (chains, cluster IPs, hairpin pairs); the rest it is told."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._chains: Counter[Chain] = Counter()
        self._affinities: Counter[Container] = Counter()  # by the chains that fill them
        self._shared: Counter[tuple[Container, str]] = Counter()

    def change(
        self,
        changes: Iterable[Change],
        old_cluster_ips: Iterable[str] = (),
        new_cluster_ips: Iterable[str] = (),
    ) -> Transaction:
        """The transaction for these changes. The kernel must hold what the earlier transactions made."""
        transaction = Transaction()
        chains: Counter[Chain] = Counter()
        shared: Counter[tuple[Container, str]] = Counter()
        for old, new in changes:
            for frontend, step in ((old, -1), (new, 1)):
                if frontend is not None:
                    for chain in way_of(frontend, self.settings).chains:
                        chains[chain] += step
            self._entry(transaction, old, new)
            key = old.key if old is not None else new.key if new is not None else None
            if key is not None:
                # Sticky Frontends have no numbered elements: their backends are named by chains.
                numbered = tuple(f is None or f.affinity_seconds is None for f in (old, new))
                backends = [f.backends if f is not None else () for f in (old, new)]
                _backends(transaction, shared, key, 0, backends, numbered)
                insides = [(f.inside or ()) if f is not None else () for f in (old, new)]
                _backends(transaction, shared, key, INSIDE, insides, numbered)
        for step, addresses in ((-1, old_cluster_ips), (1, new_cluster_ips)):
            for address in addresses:
                shared[Container(family_of(address), "cluster-ips"), address] += step
        came, went = _count(self._shared, shared)
        for container, element in came:
            transaction.added.setdefault(container, []).append(element)
        for container, element in went:
            transaction.removed.setdefault(container, []).append(element)
        new_chains, old_chains = _count(self._chains, chains)
        affinities: Counter[Container] = Counter()
        for step, some in ((1, new_chains), (-1, old_chains)):
            for chain in some:
                if chain.affinity:
                    affinities[Container(chain.family, chain.affinity)] += step
        new_sets, old_sets = _count(self._affinities, affinities)
        transaction.structure += _declare(sorted(new_sets))
        transaction.structure += _open(sorted(new_chains))
        transaction.closing += _close((chain.family, chain.name) for chain in sorted(old_chains))
        transaction.closing += (f"delete set {word(family)} {TABLE} {name}" for family, name in sorted(old_sets))
        return transaction

    def full(
        self, frontends: Iterable[Frontend], cluster_ips: Iterable[str], kernel: Mapping[Family, Table]
    ) -> Transaction:
        """The transaction that makes the kernel's tables hold these Frontends and nothing else.

        `kernel` is what was read of each family's table, without those that are absent. Rules are always written anew;
        elements only where they differ.
        """
        self._chains.clear()
        self._affinities.clear()
        self._shared.clear()
        everything = self.change([Change(None, frontend) for frontend in frontends], (), cluster_ips)
        transaction = Transaction()
        for family in (4, 6):
            table = kernel.get(family)
            if family not in self.settings.families:
                if table is not None:
                    transaction.structure.append(f"delete table {word(family)} {TABLE}")
                continue
            self._structure(transaction, family, table if table is not None else Table())
            for name in CONTAINERS:
                present = table.elements.get(name, {}) if table is not None else {}
                _compare(
                    transaction, Container(family, name), everything.added.get(Container(family, name), []), present
                )
        return transaction

    def chains(self, family: Family) -> tuple[Chain, ...]:
        """All chains that the family's table has now."""
        return (
            *fixed_chains(family, self.settings),
            *sorted(chain for chain in self._chains if chain.family == family),
        )

    def _entry(self, transaction: Transaction, old: Frontend | None, new: Frontend | None) -> None:
        """The element that says where a Frontend's connections go."""
        verdicts = [way_of(f, self.settings).verdict if f is not None else "" for f in (old, new)]
        if verdicts[0] == verdicts[1] and (old is None or new is None or old.owner == new.owner):
            return
        if old is not None:
            transaction.removed.setdefault(_container(old.key, "services", "nodeports"), []).append(_words(old.key))
        if new is not None:
            comment = f' comment "{new.owner}"' if _is_harmless(new.owner) else ""
            element = f"{_words(new.key)}{comment} : {verdicts[1]}"
            transaction.added.setdefault(_container(new.key, "services", "nodeports"), []).append(element)

    def _structure(self, transaction: Transaction, family: Family, table: Table) -> None:
        """The table, its containers and chains; what else is in it goes."""
        ip = word(family)
        declared = containers(family)
        transaction.structure.append(f"add table {ip} {TABLE}")
        for declaration in declared.values():
            kind, rest = declaration.split(" ", 1)
            transaction.structure.append(f"add {kind} {ip} {TABLE} {rest}")
        affinities = sorted(container for container in self._affinities if container.family == family)
        transaction.structure += _declare(affinities)
        chains = self.chains(family)
        names = {chain.name for chain in chains}
        transaction.structure += _open(chains)
        transaction.closing += _close((family, name) for name in sorted(table.chains - names))
        for name, kind in sorted(table.others.items()):
            if Container(family, name) not in self._affinities:
                transaction.closing.append(f"delete {kind} {ip} {TABLE} {name}")


def _backends(
    transaction: Transaction,
    shared: Counter[tuple[Container, str]],
    key: FrontendKey,
    base: int,
    backends: Sequence[Sequence[Backend]],
    numbered: Sequence[bool],
) -> None:
    """The elements of numbered backends that differ; those that may reach themselves are counted in `shared`.

    `backends`: the old and the new ones; `numbered`: whether these and those are elements at all.
    """
    old, new = backends
    was_numbered, is_numbered = numbered
    if old is new and was_numbered == is_numbered:
        return
    container = _container(key, f"{key.protocol}-endpoints", f"{key.protocol}-nodeport-endpoints")
    prefix = str(key.port) if key.is_node_port else f"{key.address} . {key.port}"
    added: list[str] = []
    removed: list[str] = []
    pairs = Container(key.family, "hairpin")
    for index in range(max(len(old), len(new))):
        before = old[index] if index < len(old) else None
        after = new[index] if index < len(new) else None
        if before == after and was_numbered == is_numbered:
            continue
        if before is not None and (before.is_local or not before.node):
            shared[pairs, f"{before.address} . {before.address}"] -= 1
        if after is not None and (after.is_local or not after.node):
            shared[pairs, f"{after.address} . {after.address}"] += 1
        is_same = (
            before is not None and after is not None and (before.address, before.port) == (after.address, after.port)
        )
        if is_same and was_numbered == is_numbered:
            continue
        if before is not None and was_numbered:
            removed.append(f"{prefix} . {base + index}")
        if after is not None and is_numbered:
            added.append(f"{prefix} . {base + index} : {after.address} . {after.port}")
    if removed:
        transaction.removed.setdefault(container, []).extend(removed)
    if added:
        transaction.added.setdefault(container, []).extend(added)


def _compare(transaction: Transaction, container: Container, wanted: Sequence[str], present: Mapping[str, str]) -> None:
    """Puts the difference between an element list and the kernel's elements into the transaction."""
    if not present:
        if wanted:
            transaction.added[container] = list(wanted)
        return
    keys = set()
    for element in wanted:
        key, _, value = element.partition(" : ")
        key = key.partition(" comment ")[0]
        keys.add(key)
        had = present.get(key)
        if had == value:
            continue
        if had is not None:
            transaction.removed.setdefault(container, []).append(key)
        transaction.added.setdefault(container, []).append(element)
    for key in sorted(present.keys() - keys):
        transaction.removed.setdefault(container, []).append(key)


def _count(counter: Counter[Counted], steps: Counter[Counted]) -> tuple[list[Counted], list[Counted]]:
    """Add `steps` to `counter`. Returns what it has now and had not before, and what it no longer has."""
    came, went = [], []
    for thing, step in steps.items():
        before = counter[thing]
        after = before + step
        if after > 0:
            counter[thing] = after
            if before <= 0:
                came.append(thing)
        else:
            del counter[thing]
            if before > 0:
                went.append(thing)
    return came, went


def _declare(affinities: Iterable[Container]) -> Iterator[str]:
    """Sets of clients. One that is there already keeps its clients."""
    for family, name in affinities:
        yield f"add set {word(family)} {TABLE} {affinity_set(family, name).partition(' ')[2]}"


def _open(chains: Iterable[Chain]) -> Iterator[str]:
    """All chains first, empty, since rules refer to chains in any order."""
    chains = tuple(chains)
    for chain in chains:
        hook = f" {{ {chain.hook} }}" if chain.hook else ""
        yield f"add chain {word(chain.family)} {TABLE} {chain.name}{hook}"
    for chain in chains:
        yield f"flush chain {word(chain.family)} {TABLE} {chain.name}"
    for chain in chains:
        for rule in chain.rules:
            yield f"add rule {word(chain.family)} {TABLE} {chain.name} {rule}"


def _close(chains: Iterable[tuple[Family, str]]) -> Iterator[str]:
    chains = tuple(chains)
    for verb in ("flush", "delete"):
        for family, name in chains:
            yield f"{verb} chain {word(family)} {TABLE} {name}"


def _container(key: FrontendKey, addressed: str, node_port: str) -> Container:
    return Container(key.family, node_port if key.is_node_port else addressed)


def _words(key: FrontendKey) -> str:
    """A Frontend's key as the verdict maps have it."""
    return f"{key.protocol} . {key.port}" if key.is_node_port else f"{key.address} . {key.protocol} . {key.port}"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
