"""The garbage collector's graph of owners and dependents, over all objects of a cluster.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Garbage Collection" and "Owners and Dependents"; `pkg/controller/garbagecollector`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, ObjectKey, ObjectMeta, OwnerReference

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"


@dataclass(frozen=True)
class Item:
    """An object in the graph: kind, key, uid, owners, and how it is being deleted."""

    kind: Kind[Any]
    key: ObjectKey
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    is_deleting: bool = False
    waits_for_dependents: bool = False  # being deleted in the foreground
    orphans_dependents: bool = False  # being deleted, and its dependents are to stay

    @classmethod
    def from_object(cls, kind: Kind[Any], obj: Object) -> Item:
        meta: ObjectMeta = obj.metadata
        is_deleting = meta.deletion_timestamp is not None
        return cls(
            kind,
            obj.key,
            meta.uid,
            meta.owner_references,
            is_deleting,
            is_deleting and FOREGROUND_FINALIZER in meta.finalizers,
            is_deleting and ORPHAN_FINALIZER in meta.finalizers,
        )

    def is_blocked_by(self, owner_uid: str) -> bool:
        """Whether this object blocks a foreground deletion of the owner."""
        return any(owner.uid == owner_uid and owner.block_owner_deletion for owner in self.owners)


@dataclass(frozen=True)
class OwnerStates:
    """Owners of an object by state: they exist, are missing, or wait for the deletion of their dependents."""

    present: tuple[OwnerReference, ...] = ()
    missing: tuple[OwnerReference, ...] = ()
    waiting: tuple[OwnerReference, ...] = ()

    def with_owner(self, reference: OwnerReference, owner: Item | None) -> OwnerStates:
        """Return the states with one more owner, None for a missing one."""
        if owner is None:
            return replace(self, missing=(*self.missing, reference))
        if owner.waits_for_dependents:
            return replace(self, waiting=(*self.waiting, reference))
        return replace(self, present=(*self.present, reference))


class Ownership:
    """Items by uid, and the dependents of every uid in an owner reference."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, set[str]] = {}

    def get(self, uid: str) -> Item | None:
        return self._items.get(uid)

    def owner(self, item: Item, reference: OwnerReference) -> Item | None:
        """Return the object that a reference names: one without a namespace, or one of the item's own namespace."""
        owner = self._items.get(reference.uid)
        return owner if owner is not None and owner.key.namespace in ("", item.key.namespace) else None

    def dependents(self, uid: str) -> list[Item]:
        return [self._items[dependent] for dependent in sorted(self._dependents.get(uid, ()))]

    def change(self, old: Item | None, new: Item | None) -> set[str]:
        """Apply a change; return the uids that must be checked because of it."""
        if new is None:
            return self._remove(old) if old is not None else set()
        before = self._items.get(new.uid)
        self._items[new.uid] = new
        owners_before = {owner.uid for owner in before.owners} if before is not None else set()
        owners = {owner.uid for owner in new.owners}
        for uid in owners - owners_before:
            self._dependents.setdefault(uid, set()).add(new.uid)
        for uid in owners_before - owners:
            self._forget(uid, new.uid)
        to_check: set[str] = set()
        known = [self.owner(new, reference) for reference in new.owners]
        if any(owner is None or owner.waits_for_dependents for owner in known):
            to_check.add(new.uid)
        to_check |= self._waiting(owners_before | owners)
        if new.waits_for_dependents and not (before is not None and before.waits_for_dependents):
            to_check |= {new.uid, *self._dependents.get(new.uid, ())}
        if new.orphans_dependents:
            to_check.add(new.uid)
        return to_check

    def _remove(self, old: Item) -> set[str]:
        item = self._items.pop(old.uid, old)
        owners = [owner.uid for owner in item.owners]
        for uid in owners:
            self._forget(uid, item.uid)
        return set(self._dependents.get(item.uid, ())) | self._waiting(owners)

    def _waiting(self, uids: Iterable[str]) -> set[str]:
        return {uid for uid in uids if (item := self._items.get(uid)) is not None and item.waits_for_dependents}

    def _forget(self, owner: str, dependent: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is not None:
            dependents.discard(dependent)
            if not dependents:
                del self._dependents[owner]
