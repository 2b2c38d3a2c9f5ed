"""All Frontends of the node, and what a changed Service changes in them.

`agent.py` gives each recompiled Service to `FrontendTable.update` and hands the resulting `Change`s to the mode. Pure
state: no I/O. Where two Services claim one address and port, it goes to the Service whose cluster IP it is, else to the
older one; the other's Problem says so.

Backends keep their numbers where they can: a new backend takes the place of one that went, and the last moves into a
hole. So a renderer that numbers backends touches as few elements as there are changed backends, whatever the Frontend's
size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from bridgehead.objects.meta import ObjectKey

from .frontends import Backend, Frontend, FrontendKey, Problem, Reason, ServiceFrontends


class Change(NamedTuple):
    """One Frontend before and after; None where there was, or will be, none."""

    old: Frontend | None
    new: Frontend | None


class Update(NamedTuple):
    """What one `FrontendTable.update` did.

    `changes` in the order of their keys; `cluster_ips` went from the first tuple to the second;
    `conflicts` are the claims that lost, by the Service that lost.
    """

    changes: list[Change]
    old_cluster_ips: tuple[str, ...]
    new_cluster_ips: tuple[str, ...]
    conflicts: dict[ObjectKey, list[Problem]]


class Frontends(Protocol):
    """What the kernel is to hold: of a FrontendTable, or of a mode that stands on another one."""

    def __iter__(self) -> Iterator[Frontend]: ...
    def get(self, key: FrontendKey) -> Frontend | None: ...
    def cluster_ips(self) -> Iterator[str]: ...


class FrontendTable:
    """The Frontends of every Service of the node, with conflicts settled and backends in lasting order."""

    def __init__(self) -> None:
        self._services: dict[ObjectKey, ServiceFrontends] = {}
        self._installed: dict[FrontendKey, Frontend] = {}
        # Who else claims a key. Absent where there is one claimant, as nearly everywhere.
        self._claimants: dict[FrontendKey, set[ObjectKey]] = {}
        self._holder: dict[FrontendKey, ObjectKey] = {}

    def __len__(self) -> int:
        return len(self._installed)

    def __iter__(self) -> Iterator[Frontend]:
        return iter(self._installed.values())

    def get(self, key: FrontendKey) -> Frontend | None:
        return self._installed.get(key)

    def services(self) -> Iterable[ObjectKey]:
        return self._services.keys()

    def compiled(self, service: ObjectKey) -> ServiceFrontends | None:
        """What `update` was given last for a Service that has anything."""
        return self._services.get(service)

    def cluster_ips(self) -> Iterator[str]:
        """Every Service's cluster IPs; one may come twice when two Services claim it."""
        for compiled in self._services.values():
            yield from compiled.cluster_ips

    def update(self, service: ObjectKey, compiled: ServiceFrontends | None) -> Update:
        """Put what was compiled in the place of the Service's earlier Frontends. None: it is gone."""
        old = self._services.pop(service, None)
        if compiled is not None and (compiled.frontends or compiled.cluster_ips):
            self._services[service] = compiled
        wanted = {f.key: f for f in compiled.frontends} if compiled is not None else {}
        touched = {f.key for f in old.frontends} if old is not None else set()
        touched |= wanted.keys()
        changes: list[Change] = []
        conflicts: dict[ObjectKey, list[Problem]] = {}
        for key in sorted(touched):
            candidate = self._settle(key, service, wanted.get(key), conflicts)
            before = self._installed.get(key)
            after = arrange(before, candidate)
            if before == after:
                continue
            if after is None:
                del self._installed[key]
            else:
                self._installed[key] = after
            changes.append(Change(before, after))
        return Update(
            changes,
            old.cluster_ips if old is not None else (),
            compiled.cluster_ips if compiled is not None else (),
            conflicts,
        )

    def _settle(
        self, key: FrontendKey, service: ObjectKey, wanted: Frontend | None, conflicts: dict[ObjectKey, list[Problem]]
    ) -> Frontend | None:
        """Which claimant's Frontend holds `key` from now on."""
        holder = self._holder.get(key)
        if holder is None or holder == service:
            others = self._claimants.get(key)
            if not others:  # nobody else: the common case, without sets
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
        if len(claimants) > 1:
            self._claimants[key] = claimants
            for loser in claimants - {winner}:
                conflicts.setdefault(loser, []).append(Problem(Reason.CONFLICT, f"{key} belongs to {winner}"))
        self._holder[key] = winner
        return next(f for f in self._services[winner].frontends if f.key == key)

    def _rank(self, claimant: ObjectKey, key: FrontendKey) -> tuple[bool, tuple[str, str, str], ObjectKey]:
        """A Service's cluster IP goes before what others publish there."""
        compiled = self._services[claimant]
        return key.address not in compiled.cluster_ips, compiled.age, claimant


def merge_updates(updates: Sequence[Update]) -> Update:
    """What several, made one after the other, do together. What conflicts was told of each."""
    return Update(
        merge_changes(updates),
        tuple(address for update in updates for address in update.old_cluster_ips),
        tuple(address for update in updates for address in update.new_cluster_ips),
        {},
    )


def merge_changes(updates: Iterable[Update]) -> list[Change]:
    """What several updates, made one after the other, change together: each key once, in the order of the keys."""
    merged: dict[FrontendKey, Change] = {}
    for update in updates:
        for change in update.changes:
            frontend = change.old or change.new
            if frontend is not None:
                before = merged.get(frontend.key, change)
                merged[frontend.key] = Change(before.old, change.new)
    return [merged[key] for key in sorted(merged) if merged[key].old != merged[key].new]


def arrange(old: Frontend | None, new: Frontend | None) -> Frontend | None:
    """`new` with its backends in such an order that as few as possible have another number than in `old`."""
    if old is None or new is None:
        return new
    backends = arrange_backends(old.backends, new.backends)
    inside = new.inside
    if old.inside is not None and inside is not None:
        inside = arrange_backends(old.inside, inside)
    if backends is new.backends and inside is new.inside:
        return new
    return msgspec.structs.replace(new, backends=backends, inside=inside)


def arrange_backends(old: tuple[Backend, ...], new: tuple[Backend, ...]) -> tuple[Backend, ...]:
    """`new`, reordered: who was there stays in place, newcomers fill holes, the last move into holes that remain."""
    if old == new or not old:
        return new
    # Nearly all are the same objects. Finding the others takes no loop of ours, however many there are.
    old_places = dict(zip(map(id, old), range(len(old)), strict=True))
    new_places = dict(zip(map(id, new), range(len(new)), strict=True))
    came = sorted(new_places[one] for one in new_places.keys() - old_places.keys())
    fresh = {(new[index].address, new[index].port): new[index] for index in came}
    placed: list[Backend | None] = list(old)
    holes: list[int] = []
    for index in sorted(old_places[one] for one in old_places.keys() - new_places.keys()):
        placed[index] = fresh.pop((old[index].address, old[index].port), None)  # the same one in another zone
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
