"""Frontends as nft text: fixed chains, and a map element for everything that varies. README.md explains the ruleset.

Pure: no I/O, no clock, no randomness.

`Renderer.change` renders `Change`s as the transaction that brings the kernel from the old Frontends to the new; its
length follows the size of the change. `Renderer.full` compares everything that should be there with what the kernel
has (`readback.Table`) and renders the difference, which for an empty kernel is the whole ruleset. `Renderer.repair`
restores a few elements and chains that somebody else changed. `mode.py` calls them and applies the result.

All input is checked before it becomes text: addresses and ranges are canonical (`address_texts.canonical_address`),
ports are ints, and a Service's name appears only in a comment, and only when all its characters are harmless.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bridgehead.proxy.address_texts import Family, family_of
from bridgehead.proxy.frontend_table import Change, Frontends
from bridgehead.proxy.frontends import Frontend, FrontendKey
from bridgehead.proxy.mode import Settings

from .affinity import affinity_difference
from .chains import (
    CLIENTS,
    Chain,
    affinity_containers,
    basic_containers,
    clients_map,
    dispatch_for,
    family_keyword,
    fixed_chains,
    frontend_text,
)
from .endpoint_elements import change_endpoints, pod_ranges
from .readback import Table
from .transaction import CONTAINERS, COUNTED, SERVICES, Container, Transaction, frontend_of, key_of
from .use_counts import count, count_chains


class TableSpec(NamedTuple):
    """The name of the tables that Frontends are rendered to, and further chains that these tables have."""

    name: str = "bridgehead"
    chains: tuple[Chain, ...] = ()


EVERYTHING = "*"  # the key of the element that matches when no other does (nft: catch-all)

_is_harmless = re.compile(r"[a-z0-9][a-z0-9./:-]{0,120}").fullmatch


class Renderer:
    """Renders transactions, and counts for this how many Frontends use each shared object.

    Shared objects are maps for affinity, chains, cluster IPs and hairpin pairs. Each is in the kernel while a
    Frontend uses it. A family's table is created for its first Service and stays: without base chains of type nat the
    kernel would not translate the packets of open connections any more.
    """

    def __init__(self, settings: Settings, table: TableSpec | None = None) -> None:
        self.settings = settings
        self.table = table if table is not None else TableSpec()
        self._families: set[Family] = set()
        self._with_affinity: Counter[Family] = Counter()
        self._chains: Counter[Chain] = Counter()
        self._shared: Counter[tuple[Container, str]] = Counter()

    def change(
        self,
        changes: Iterable[Change],
        old_cluster_ips: Iterable[str] = (),
        new_cluster_ips: Iterable[str] = (),
    ) -> Transaction:
        """Return the transaction for these changes. The kernel must hold what the earlier transactions made."""
        transaction = Transaction(self.table.name)
        families: set[Family] = set()
        with_affinity: Counter[Family] = Counter()
        chains: Counter[Chain] = Counter()
        shared: Counter[tuple[Container, str]] = Counter()
        for old, new in changes:
            verdicts = []
            for frontend, step in ((old, -1), (new, 1)):
                if frontend is None:
                    verdicts.append("")
                    continue
                families.add(frontend.key.family)
                if frontend.affinity_seconds is not None:
                    with_affinity[frontend.key.family] += step
                verdict, chain = dispatch_for(frontend, self.settings)
                verdicts.append(verdict)
                if chain is not None:
                    chains[chain] += step
            _service(transaction, old, new, verdicts)
            key = old.key if old is not None else new.key if new is not None else None
            # The endpoints of Frontends with affinity have other numbers.
            by_index = tuple(f is None or f.affinity_seconds is None for f in (old, new))
            if key is not None:
                pods = pod_ranges(self.settings, key.family)
                backends = [f.backends if f is not None else () for f in (old, new)]
                change_endpoints(transaction, shared, key, backends, by_index, pods, is_cluster=False)
                cluster_backends = [(f.cluster_backends or ()) if f is not None else () for f in (old, new)]
                change_endpoints(transaction, shared, key, cluster_backends, by_index, pods, is_cluster=True)
            if not all(by_index):
                _affinity(transaction, old, new)
        for step, addresses in ((-1, old_cluster_ips), (1, new_cluster_ips)):
            for address in addresses:
                families.add(family_of(address))
                shared[Container(family_of(address), "cluster-ips"), address] += step
        new_elements, old_elements = count(self._shared, shared)
        for container, element in new_elements:
            transaction.added.setdefault(container, []).append(element)
        for container, element in old_elements:
            transaction.removed.setdefault(container, []).append(element)
        new_families = sorted(families - self._families)
        self._families |= families
        new_affinity, old_affinity = count(self._with_affinity, with_affinity)
        new_chains, old_chains = count_chains(self._chains, chains)
        name = self.table.name
        for family in new_families:
            transaction.structure.append(f"add table {family_keyword(family)} {name}")
            transaction.structure += _declare(name, family, basic_containers(family))
        for family in new_affinity:
            transaction.structure += _declare(name, family, _affinity_maps(family))
        fixed = (chain for family in new_families for chain in self._fixed_chains(family))
        transaction.structure += _open(name, (*fixed, *sorted(new_chains)))
        transaction.closing += _close(name, ((chain.family, chain.name) for chain in sorted(old_chains)))
        for family in old_affinity:
            maps = _affinity_maps(family)
            transaction.closing += (f"delete map {family_keyword(family)} {name} {map_}" for map_ in maps)
        return transaction

    def full(
        self, frontends: Iterable[Frontend], cluster_ips: Iterable[str], kernel: Mapping[Family, Table]
    ) -> Transaction:
        """Return the transaction that makes the kernel's tables hold these Frontends and nothing else.

        `kernel` is what was read of each family's table, without those that do not exist. Rules are always written
        anew; elements only where they differ.
        """
        for counter in (self._with_affinity, self._chains, self._shared):
            counter.clear()
        self._families = {family for family in self.settings.families if family in kernel}
        everything = self.change([Change(None, frontend) for frontend in frontends], (), cluster_ips)
        transaction = Transaction(self.table.name)
        for family in (4, 6):
            table = kernel.get(family)
            if family not in self.families:
                if table is not None:
                    transaction.structure.append(f"delete table {family_keyword(family)} {self.table.name}")
                continue
            self._structure(transaction, family, table if table is not None else Table())
            for name in CONTAINERS:
                present = table.elements.get(name, {}) if table is not None else {}
                container = Container(family, name)
                transaction.change_elements(container, everything.added.get(container, []), present)
        return transaction

    def repair(
        self,
        frontends: Frontends,
        elements: Mapping[Container, Mapping[str, str | None]],
        chains: Mapping[tuple[Family, str], bool],
    ) -> Transaction:
        """Return the transaction that restores these elements and chains, which somebody else changed, and no others.

        `elements`: the values that the kernel has now under each of these keys, None where it has no element. `chains`:
        whether each of these exists; its rules are written anew.
        """
        name = self.table.name
        transaction = Transaction(name)
        wanted = {(chain.family, chain.name): chain for family in self.families for chain in self.chains(family)}
        transaction.structure += _open(name, [wanted[chain] for chain in chains if chain in wanted])
        unknown = sorted(chain for chain, exists in chains.items() if exists and chain not in wanted)
        transaction.closing += _close(name, unknown)
        of_frontends: dict[FrontendKey, dict[Container, list[str]]] = {}
        for container, keys in elements.items():
            present = {key: value for key, value in keys.items() if value is not None}
            lines: Iterable[str]
            if container.name in COUNTED:
                lines = [key for key in keys if self._shared[container, key] > 0]
            else:
                concerned = {frontend_of(key) for key in keys if key != EVERYTHING}
                lines = []
                for frontend in filter(None, map(frontends.get, concerned)):
                    if frontend.key not in of_frontends:
                        alone = Renderer(self.settings, self.table).change([Change(None, frontend)])
                        of_frontends[frontend.key] = alone.added
                    lines += of_frontends[frontend.key].get(container, ())
                lines = [line for line in lines if key_of(line) in keys]
            transaction.change_elements(container, lines, present)
        return transaction

    @property
    def families(self) -> tuple[Family, ...]:
        """The families that have a table now."""
        return tuple(family for family in self.settings.families if family in self._families)

    def chains(self, family: Family) -> tuple[Chain, ...]:
        """Return all chains of the family's table."""
        return (*self._fixed_chains(family), *sorted(chain for chain in self._chains if chain.family == family))

    def empty_tables(self) -> list[str]:
        """Return statements that create all families' tables without any Service."""
        statements = []
        for family in self.settings.families:
            statements.append(f"add table {family_keyword(family)} {self.table.name}")
            statements += _declare(self.table.name, family, basic_containers(family))
            statements += _open(self.table.name, self._fixed_chains(family))
        return statements

    def _fixed_chains(self, family: Family) -> tuple[Chain, ...]:
        more = (chain for chain in self.table.chains if chain.family == family)
        return (*fixed_chains(family, self.settings), *more)

    def _structure(self, transaction: Transaction, family: Family, table: Table) -> None:
        """Create the table, its containers and chains; delete all others that are in it."""
        ip, name_of_table = family_keyword(family), self.table.name
        transaction.structure.append(f"add table {ip} {name_of_table}")
        declared = basic_containers(family)
        if self._with_affinity[family]:
            declared |= _affinity_maps(family)
        transaction.structure += _declare(name_of_table, family, declared)
        chains = self.chains(family)
        names = {chain.name for chain in chains}
        transaction.structure += _open(name_of_table, chains)
        transaction.closing += _close(name_of_table, ((family, name) for name in sorted(table.chains - names)))
        unused = {name: "map" for name in affinity_containers(family) if name in table.elements} | table.others
        for name, kind in sorted(unused.items()):
            if name not in declared:
                transaction.closing.append(f"delete {kind} {ip} {name_of_table} {name}")


def _service(transaction: Transaction, old: Frontend | None, new: Frontend | None, verdicts: Sequence[str]) -> None:
    """Replace the element in `services`, if it differs."""
    if verdicts[0] == verdicts[1] and (old is None or new is None or old.owner == new.owner):
        return
    if old is not None:
        container = Container(old.key.family, SERVICES)
        transaction.removed.setdefault(container, []).append(frontend_text(old.key))
    if new is not None:
        comment = f' comment "{new.owner}"' if _is_harmless(new.owner) else ""
        element = f"{frontend_text(new.key)}{comment} : {verdicts[1]}"
        transaction.added.setdefault(Container(new.key.family, SERVICES), []).append(element)


def _affinity_maps(family: Family) -> dict[str, str]:
    """Return declarations of the maps that exist only while there are Frontends with affinity."""
    return {CLIENTS: clients_map(family)} | affinity_containers(family)


def _affinity(transaction: Transaction, old: Frontend | None, new: Frontend | None) -> None:
    """Replace the elements that differ, of Frontends of which at least one has affinity."""
    family = new.key.family if new is not None else old.key.family if old is not None else 4
    removed, added = affinity_difference(old, new)
    for name, elements in removed.items():
        if elements:
            transaction.removed.setdefault(Container(family, name), []).extend(elements)
    for name, elements in added.items():
        if elements:
            lines = (f"{key} : {value}" for key, value in elements.items())
            transaction.added.setdefault(Container(family, name), []).extend(lines)


def _declare(table: str, family: Family, declarations: Mapping[str, str]) -> Iterator[str]:
    for declaration in declarations.values():
        kind, rest = declaration.split(" ", 1)
        yield f"add {kind} {family_keyword(family)} {table} {rest}"


def _open(table: str, chains: Iterable[Chain]) -> Iterator[str]:
    """Create all chains first, empty, since rules refer to chains in any order; then write their rules."""
    chains = tuple(chains)
    for chain in chains:
        hook = f" {{ {chain.hook} }}" if chain.hook else ""
        yield f"add chain {family_keyword(chain.family)} {table} {chain.name}{hook}"
    for chain in chains:
        yield f"flush chain {family_keyword(chain.family)} {table} {chain.name}"
    for chain in chains:
        for rule in chain.rules:
            yield f"add rule {family_keyword(chain.family)} {table} {chain.name} {rule}"


def _close(table: str, chains: Iterable[tuple[Family, str]]) -> Iterator[str]:
    """Empty all chains, then delete them, since their rules refer to each other."""
    chains = tuple(chains)
    for verb in ("flush", "delete"):
        for family, name in chains:
            yield f"{verb} chain {family_keyword(family)} {table} {name}"
