"""The table of all Frontends of the node, and the changes that a changed Service makes to it.

`programmer.py` gives each recompiled Service to `FrontendTable.update` and the resulting `Change`s to the mode. If two
Services claim one address and port, it belongs to the Service whose cluster IP it is, else to the one that a load
balancer gave it or the pod that has it as a host port, else to the older one; the other Service gets a Problem. A node
port or host port comes before all claims of its number at an address of the node.

Backends keep their index where possible: a new backend takes the index of one that left, and the last backend moves to
an index that remains free. A renderer that numbers backends therefore changes only as many elements as there are
changed backends, whatever the size of the Frontend.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from bridgehead.objects.meta import ObjectKey

from .frontends import Backend, Frontend, FrontendKey, Problem, Publication, Reason, ServiceFrontends
from .host_port_frontends import pod_of


class Change(NamedTuple):
    """One Frontend before and after; None where there is none."""

    old: Frontend | None
    new: Frontend | None


class Update(NamedTuple):
    """The result of one `FrontendTable.update`.

    `changes` are in the order of their keys. `conflicts`: the claims that were not granted, by the Service that made
    them.
    """

    changes: list[Change]
    old_cluster_ips: tuple[str, ...]
    new_cluster_ips: tuple[str, ...]
    conflicts: dict[ObjectKey, list[Problem]]


class Frontends(Protocol):
    """The Frontends for the kernel: a FrontendTable, or the view that one mode gives to the mode below it."""

    def __iter__(self) -> Iterator[Frontend]: ...
    def get(self, key: FrontendKey) -> Frontend | None: ...
    def cluster_ips(self) -> Iterator[str]: ...


class FrontendTable:
    """The Frontends of every Service of the node, with conflicts resolved and backends in a stable order."""

    def __init__(self) -> None:
        self._services: dict[ObjectKey, ServiceFrontends] = {}
        self._installed: dict[FrontendKey, Frontend] = {}
        # All claimants of a key. Absent if there is only one, which is the rule.
        self._claimants: dict[FrontendKey, set[ObjectKey]] = {}
        self._holder: dict[FrontendKey, ObjectKey] = {}
        # The claimed keys at addresses of the node, by the node port that would come before them.
        self._on_node: dict[FrontendKey, set[FrontendKey]] = {}
        # The claims of contested Services by key, during an update: a Service may have tens of thousands.
        self._claims: dict[ObjectKey, dict[FrontendKey, Frontend]] = {}

    def __len__(self) -> int:
        return len(self._installed)

    def __iter__(self) -> Iterator[Frontend]:
        return iter(self._installed.values())

    def get(self, key: FrontendKey) -> Frontend | None:
        return self._installed.get(key)

    def services(self) -> Iterable[ObjectKey]:
        return self._services.keys()

    def compiled(self, service: ObjectKey) -> ServiceFrontends | None:
        """Return the compiled Service in the table; None: the Service has neither Frontends nor addresses."""
        return self._services.get(service)

    def cluster_ips(self) -> Iterator[str]:
        """Yield every Service's cluster IPs; an address comes twice if two Services claim it."""
        for compiled in self._services.values():
            yield from compiled.cluster_ips

    def update(self, service: ObjectKey, compiled: ServiceFrontends | None) -> Update:
        """Replace the Service's Frontends by the compiled ones. None: the Service is deleted."""
        old = self._services.pop(service, None)
        if compiled is not None and (compiled.frontends or compiled.cluster_ips):
            self._services[service] = compiled
        wanted = {f.key: f for f in compiled.frontends} if compiled is not None else {}
        keys = {f.key for f in old.frontends} if old is not None else set()
        keys |= wanted.keys()
        for frontend in wanted.values():
            if frontend.is_on_node:
                self._on_node.setdefault(frontend.key.node_port, set()).add(frontend.key)
        ordered = sorted(keys)
        if self._on_node:
            keys.update(*(self._on_node.get(key, ()) for key in ordered))
            ordered = sorted(keys, key=lambda key: (not key.is_node_port, key))  # node ports first: others yield
        changes: list[Change] = []
        conflicts: dict[ObjectKey, list[Problem]] = {}
        for key in ordered:
            candidate = self._resolve(key, service, wanted.get(key), conflicts)
            before = self._installed.get(key)
            after = arrange(before, candidate)
            if before == after:
                continue
            if after is None:
                del self._installed[key]
            else:
                self._installed[key] = after
            changes.append(Change(before, after))
        self._claims.clear()
        if self._on_node:
            self._forget_on_node(keys)
            changes.sort(key=_key_of)
        return Update(
            changes,
            old.cluster_ips if old is not None else (),
            compiled.cluster_ips if compiled is not None else (),
            conflicts,
        )

    def _resolve(
        self, key: FrontendKey, service: ObjectKey, wanted: Frontend | None, conflicts: dict[ObjectKey, list[Problem]]
    ) -> Frontend | None:
        """Return the Frontend of the claimant that holds `key` from now on, and record the claims that lost."""
        holder = self._holder.get(key)
        if holder is None or holder == service:
            others = self._claimants.get(key)
            if not others and not (wanted is not None and wanted.is_on_node):  # the common case, without sets
                if wanted is None:
                    self._holder.pop(key, None)
                else:
                    self._holder[key] = service
                return wanted
        claimants = self._claimants.pop(key, None) or ({holder} if holder is not None else set())
        claimants = claimants | {service} if wanted is not None else claimants - {service}
        if not claimants:
            self._holder.pop(key, None)
            return None
        winner = min(claimants, key=lambda claimant: self._rank(claimant, key))
        won = self._claim(winner, key)
        node_port = self._holder.get(key.node_port) if won.is_on_node else None
        if node_port is not None and node_port != winner:
            self._claimants[key] = claimants
            self._holder.pop(key, None)
            problem = Problem(Reason.CONFLICT, _yields(key, node_port))
            for loser in claimants - {node_port}:
                conflicts.setdefault(loser, []).append(problem)
            return None
        if len(claimants) > 1:
            self._claimants[key] = claimants
            for loser in claimants - {winner}:
                conflicts.setdefault(loser, []).append(Problem(Reason.CONFLICT, f"{key} belongs to {winner}"))
        self._holder[key] = winner
        return won

    def _rank(self, claimant: ObjectKey, key: FrontendKey) -> tuple[bool, bool, tuple[str, str, str], ObjectKey]:
        """Return the sort key of a claim: the Service whose cluster IP it is comes first, then the oldest.

        An external IP, which whoever writes a Service chooses, comes after host ports and what load balancers gave.
        """
        compiled = self._services[claimant]
        is_chosen = self._claim(claimant, key).published_as is Publication.EXTERNAL_IP and pod_of(claimant) is None
        return key.address not in compiled.cluster_ips, is_chosen, compiled.age, claimant

    def _claim(self, claimant: ObjectKey, key: FrontendKey) -> Frontend:
        claims = self._claims.get(claimant)
        if claims is None:
            claims = self._claims[claimant] = {one.key: one for one in self._services[claimant].frontends}
        return claims[key]

    def _forget_on_node(self, keys: Iterable[FrontendKey]) -> None:
        for key in keys:
            if key in self._holder or key in self._claimants:
                continue
            found = self._on_node.get(key.node_port)
            if found is not None:
                found.discard(key)
                if not found:
                    del self._on_node[key.node_port]


def _yields(key: FrontendKey, node_port: ObjectKey) -> str:
    """Return why no Service has a port at addresses of nodes, without naming one: all of them record one Event."""
    port = f"{key.port}/{key.protocol}"
    text = f"port {port} is not published at the addresses of nodes that the Service lists"
    owner = f"{node_port} has it as a node port or host port"
    return f"{text}: {owner}; use another port, or an address that no node has"


def _key_of(change: Change) -> FrontendKey:
    frontend = change.new or change.old
    return frontend.key if frontend is not None else FrontendKey("", "", 0)


def merge_updates(updates: Sequence[Update]) -> Update:
    """Combine updates that were made one after the other. Conflicts, reported with each update, are dropped."""
    return Update(
        merge_changes(updates),
        tuple(address for update in updates for address in update.old_cluster_ips),
        tuple(address for update in updates for address in update.new_cluster_ips),
        {},
    )


def merge_changes(updates: Iterable[Update]) -> list[Change]:
    """Combine the changes of updates that were made one after the other: each key once, in the order of the keys."""
    merged: dict[FrontendKey, Change] = {}
    for update in updates:
        for change in update.changes:
            frontend = change.old or change.new
            if frontend is not None:
                before = merged.get(frontend.key, change)
                merged[frontend.key] = Change(before.old, change.new)
    return [merged[key] for key in sorted(merged) if merged[key].old != merged[key].new]


def arrange(old: Frontend | None, new: Frontend | None) -> Frontend | None:
    """Return `new` with its backends in the order that gives as few as possible another index than in `old`."""
    if old is None or new is None:
        return new
    backends = arrange_backends(old.backends, new.backends)
    cluster_backends = new.cluster_backends
    if old.cluster_backends is not None and cluster_backends is not None:
        cluster_backends = arrange_backends(old.cluster_backends, cluster_backends)
    if backends is new.backends and cluster_backends is new.cluster_backends:
        return new
    return msgspec.structs.replace(new, backends=backends, cluster_backends=cluster_backends)


def arrange_backends(old: tuple[Backend, ...], new: tuple[Backend, ...]) -> tuple[Backend, ...]:
    """Return `new`, reordered: known backends keep their index, new ones fill holes, then the last ones do."""
    if old == new or not old:
        return new
    # Nearly all backends are the same objects in both, so set operations on their ids find the others quickly.
    old_indexes = dict(zip(map(id, old), range(len(old)), strict=True))
    new_indexes = dict(zip(map(id, new), range(len(new)), strict=True))
    added = sorted(new_indexes[one] for one in new_indexes.keys() - old_indexes.keys())
    fresh = {(new[index].address, new[index].port): new[index] for index in added}
    placed: list[Backend | None] = list(old)
    holes: list[int] = []
    for index in sorted(old_indexes[one] for one in old_indexes.keys() - new_indexes.keys()):
        placed[index] = fresh.pop((old[index].address, old[index].port), None)  # the same backend in another zone
        if placed[index] is None:
            holes.append(index)
    newcomers = list(fresh.values())
    filled = len(holes)
    for index, newcomer in zip(holes, newcomers, strict=False):
        placed[index] = newcomer
    placed.extend(newcomers[filled:])
    for hole in holes[len(newcomers) :]:
        while placed and placed[-1] is None:
            placed.pop()
        if hole < len(placed):
            placed[hole] = placed.pop()
    while placed and placed[-1] is None:
        placed.pop()
    return tuple(backend for backend in placed if backend is not None)
