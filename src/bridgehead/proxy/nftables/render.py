"""Frontends as nft text: fixed chains, and a map element for everything that varies. README.md explains the ruleset.

Three ways in, all pure. `Renderer.change` turns `Change`s into the transaction that brings the kernel from the old
Frontends to the new; its length follows the size of the change. `Renderer.full` compares everything that should be
there with what the kernel has (`readback.Table`) and sends the difference, which for an empty kernel is the whole
ruleset. `Renderer.mend` puts right a few elements and chains of which somebody told that they were changed. `mode.py`
calls them and applies what comes out.

Every word of the text comes from here or was checked: addresses and ranges are canonical
(`addresses.canonical_address`), ports are ints, and a Service's name appears only in a comment, and only when it is
made of harmless characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import NamedTuple, TypeVar

from bridgehead.proxy.addresses import Family, family_of
from bridgehead.proxy.changes import Change, Frontends
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey
from bridgehead.proxy.mode import Settings

from .affinity import sticky_difference
from .chains import (
    CLIENTS,
    INSIDE,
    Chain,
    affinity_containers,
    backend_words,
    clients_map,
    fixed_chains,
    key_words,
    usual_containers,
    way_of,
    word,
)
from .readback import Table
from .transaction import CONTAINERS, COUNTED, Container, Transaction, frontend_of, key_in


class Place(NamedTuple):
    """Where Frontends are rendered: the name of the tables, and fixed chains that are there beside the usual ones."""

    table: str = "bridgehead"
    chains: tuple[Chain, ...] = ()


USUAL = Place()
EVERYTHING = "*"  # the key of an element for all keys that there is none for

_is_harmless = re.compile(r"[a-z0-9][a-z0-9./:-]{0,120}").fullmatch

Counted = TypeVar("Counted")


class Renderer:
    """Counts how many Frontends use each shared thing (chains, cluster IPs, hairpin pairs); the rest it is told."""

    def __init__(self, settings: Settings, place: Place = USUAL) -> None:
        self.settings = settings
        self.place = place
        self._chains: Counter[Chain] = Counter()
        self._sticky: Counter[Family] = Counter()
        self._shared: Counter[tuple[Container, str]] = Counter()

    def change(
        self,
        changes: Iterable[Change],
        old_cluster_ips: Iterable[str] = (),
        new_cluster_ips: Iterable[str] = (),
    ) -> Transaction:
        """The transaction for these changes. The kernel must hold what the earlier transactions made."""
        transaction = Transaction(self.place.table)
        chains: Counter[Chain] = Counter()
        shared: Counter[tuple[Container, str]] = Counter()
        sticky: Counter[Family] = Counter()
        for old, new in changes:
            for frontend, step in ((old, -1), (new, 1)):
                if frontend is not None:
                    sticky[frontend.key.family] += step * (frontend.affinity_seconds is not None)
                    chain = way_of(frontend, self.settings).chain
                    if chain is not None:
                        chains[chain] += step
            self._entry(transaction, old, new)
            key = old.key if old is not None else new.key if new is not None else None
            # Sticky Frontends have elements of other kinds.
            numbered = tuple(f is None or f.affinity_seconds is None for f in (old, new))
            if key is not None:
                backends = [f.backends if f is not None else () for f in (old, new)]
                _backends(transaction, shared, key, 0, backends, numbered)
                insides = [(f.inside or ()) if f is not None else () for f in (old, new)]
                _backends(transaction, shared, key, INSIDE, insides, numbered)
            if not all(numbered):
                _sticky_backends(transaction, old, new)
        for step, addresses in ((-1, old_cluster_ips), (1, new_cluster_ips)):
            for address in addresses:
                shared[Container(family_of(address), "cluster-ips"), address] += step
        came, went = _count(self._shared, shared)
        for container, element in came:
            transaction.added.setdefault(container, []).append(element)
        for container, element in went:
            transaction.removed.setdefault(container, []).append(element)
        new_chains, old_chains = _count_chains(self._chains, chains)
        first_sticky, last_sticky = _count(self._sticky, sticky)
        name_of_table = self.place.table
        for family in first_sticky:
            transaction.structure += _declare(name_of_table, family, _remembering(family))
        transaction.structure += _open(name_of_table, sorted(new_chains))
        transaction.closing += _close(name_of_table, ((chain.family, chain.name) for chain in sorted(old_chains)))
        for family in last_sticky:
            names = _remembering(family)
            transaction.closing += (f"delete map {word(family)} {name_of_table} {name}" for name in names)
        return transaction

    def full(
        self, frontends: Iterable[Frontend], cluster_ips: Iterable[str], kernel: Mapping[Family, Table]
    ) -> Transaction:
        """The transaction that makes the kernel's tables hold these Frontends and nothing else.

        `kernel` is what was read of each family's table, without those that are absent. Rules are always written anew;
        elements only where they differ.
        """
        self._chains.clear()
        self._sticky.clear()
        self._shared.clear()
        everything = self.change([Change(None, frontend) for frontend in frontends], (), cluster_ips)
        transaction = Transaction(self.place.table)
        for family in (4, 6):
            table = kernel.get(family)
            if family not in self.settings.families:
                if table is not None:
                    transaction.structure.append(f"delete table {word(family)} {self.place.table}")
                continue
            self._structure(transaction, family, table if table is not None else Table())
            for name in CONTAINERS:
                present = table.elements.get(name, {}) if table is not None else {}
                _compare(
                    transaction, Container(family, name), everything.added.get(Container(family, name), []), present
                )
        return transaction

    def mend(
        self,
        frontends: Frontends,
        elements: Mapping[Container, Mapping[str, str | None]],
        chains: Mapping[tuple[Family, str], bool],
    ) -> Transaction:
        """The transaction that puts right these elements and chains, which somebody else changed, and no others.

        `elements`: what the kernel has now under each of these keys, None where it has nothing. `chains`: whether each
        of these is there; its rules are written anew.
        """
        transaction = Transaction(self.place.table)
        wanted = {
            (chain.family, chain.name): chain for family in self.settings.families for chain in self.chains(family)
        }
        transaction.structure += _open(self.place.table, [wanted[name] for name in chains if name in wanted])
        strangers = sorted(name for name, is_there in chains.items() if is_there and name not in wanted)
        transaction.closing += _close(self.place.table, strangers)
        of_frontends: dict[FrontendKey, dict[Container, list[str]]] = {}
        for container, keys in elements.items():
            present = {key: value for key, value in keys.items() if value is not None}
            lines: Iterable[str]
            if container.name in COUNTED:
                lines = [key for key in keys if self._shared[container, key] > 0]
            else:
                concerned = {frontend_of(container, key) for key in keys if key != EVERYTHING}
                lines = []
                for frontend in filter(None, map(frontends.get, concerned)):
                    if frontend.key not in of_frontends:
                        alone = Renderer(self.settings, self.place).change([Change(None, frontend)])
                        of_frontends[frontend.key] = alone.added
                    lines += of_frontends[frontend.key].get(container, ())
                lines = [line for line in lines if key_in(line) in keys]
            _compare(transaction, container, lines, present)
        return transaction

    def chains(self, family: Family) -> tuple[Chain, ...]:
        """All chains that the family's table has now."""
        return (
            *fixed_chains(family, self.settings),
            *(chain for chain in self.place.chains if chain.family == family),
            *sorted(chain for chain in self._chains if chain.family == family),
        )

    def _entry(self, transaction: Transaction, old: Frontend | None, new: Frontend | None) -> None:
        """The element that says where a Frontend's connections go."""
        verdicts = [way_of(f, self.settings).verdict if f is not None else "" for f in (old, new)]
        if verdicts[0] == verdicts[1] and (old is None or new is None or old.owner == new.owner):
            return
        if old is not None:
            transaction.removed.setdefault(_container(old.key, "services", "nodeports"), []).append(key_words(old.key))
        if new is not None:
            comment = f' comment "{new.owner}"' if _is_harmless(new.owner) else ""
            element = f"{key_words(new.key)}{comment} : {verdicts[1]}"
            transaction.added.setdefault(_container(new.key, "services", "nodeports"), []).append(element)

    def _structure(self, transaction: Transaction, family: Family, table: Table) -> None:
        """The table, its containers and chains; what else is in it goes."""
        ip, name_of_table = word(family), self.place.table
        transaction.structure.append(f"add table {ip} {name_of_table}")
        declared = usual_containers(family)
        if self._sticky[family]:
            declared |= _remembering(family)
        transaction.structure += _declare(name_of_table, family, declared)
        chains = self.chains(family)
        names = {chain.name for chain in chains}
        transaction.structure += _open(name_of_table, chains)
        transaction.closing += _close(name_of_table, ((family, name) for name in sorted(table.chains - names)))
        unused = {name: "map" for name in affinity_containers(family) if name in table.elements} | table.others
        for name, kind in sorted(unused.items()):
            if name not in declared:
                transaction.closing.append(f"delete {kind} {ip} {name_of_table} {name}")


def _sticky_backends(transaction: Transaction, old: Frontend | None, new: Frontend | None) -> None:
    """The elements that differ of Frontends of which at least one is sticky."""
    family = new.key.family if new is not None else old.key.family if old is not None else 4
    lost, gained = sticky_difference(old, new)
    for name, elements in lost.items():
        if elements:
            transaction.removed.setdefault(Container(family, name), []).extend(elements)
    for name, elements in gained.items():
        if elements:
            added = (f"{key} : {value}" for key, value in elements.items())
            transaction.added.setdefault(Container(family, name), []).extend(added)


def _remembering(family: Family) -> dict[str, str]:
    """What is declared only while there are sticky Frontends. Clients of an earlier run are kept."""
    return {CLIENTS: clients_map(family)} | affinity_containers(family)


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
    prefix = backend_words(key)
    added: list[str] = []
    removed: list[str] = []
    pairs = Container(key.family, "hairpin")
    indexes: Iterable[int] = range(max(len(old), len(new)))
    if was_numbered == is_numbered:  # where they are not the same object
        common = min(len(old), len(new))
        indexes = (*compress(range(common), map(is_not, old, new)), *range(common, max(len(old), len(new))))
    for index in indexes:
        before = old[index] if index < len(old) else None
        after = new[index] if index < len(new) else None
        if before == after and was_numbered == is_numbered:
            continue
        # Pods of other nodes come to themselves by way of this one when they use one of its published addresses.
        if before is not None and (base == INSIDE or before.is_local or not before.node):
            shared[pairs, f"{before.address} . {before.address}"] -= 1
        if after is not None and (base == INSIDE or after.is_local or not after.node):
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
        key, value = key_in(element), element.partition(" : ")[2]
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


def _count_chains(counter: Counter[Chain], steps: Counter[Chain]) -> tuple[list[Chain], list[Chain]]:
    """The same for chains, each of which needs those behind it as long as it is there itself."""
    there: Counter[Chain] = Counter()  # 1: it came, -1: it went; one that others begin and end to need does neither
    while steps:
        came, went = _count(counter, steps)
        steps = Counter()
        for chains, step in ((came, 1), (went, -1)):
            for chain in chains:
                there[chain] += step
                for needed in chain.behind:
                    steps[needed] += step
    return [chain for chain, is_ in there.items() if is_ > 0], [chain for chain, is_ in there.items() if is_ < 0]


def _declare(table: str, family: Family, containers: Mapping[str, str]) -> Iterator[str]:
    for declaration in containers.values():
        kind, rest = declaration.split(" ", 1)
        yield f"add {kind} {word(family)} {table} {rest}"


def _open(table: str, chains: Iterable[Chain]) -> Iterator[str]:
    """All chains first, empty, since rules refer to chains in any order."""
    chains = tuple(chains)
    for chain in chains:
        hook = f" {{ {chain.hook} }}" if chain.hook else ""
        yield f"add chain {word(chain.family)} {table} {chain.name}{hook}"
    for chain in chains:
        yield f"flush chain {word(chain.family)} {table} {chain.name}"
    for chain in chains:
        for rule in chain.rules:
            yield f"add rule {word(chain.family)} {table} {chain.name} {rule}"


def _close(table: str, chains: Iterable[tuple[Family, str]]) -> Iterator[str]:
    chains = tuple(chains)
    for verb in ("flush", "delete"):
        for family, name in chains:
            yield f"{verb} chain {word(family)} {table} {name}"


def _container(key: FrontendKey, addressed: str, node_port: str) -> Container:
    return Container(key.family, node_port if key.is_node_port else addressed)
