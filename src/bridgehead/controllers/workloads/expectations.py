"""Expectations: creations and deletions that a controller has requested and its informer has not shown yet.

A controller records the expected creations and deletions of pods before it requests them; the informer's handlers
remove those that have arrived. Until all have arrived, the controller only updates the status, so that a stale informer
never leads to duplicate requests. Creations are counted, since the server chooses their names. Deletions are kept by
uid, since a deletion causes two events: the pod terminates, and later is removed.
Source: Kubernetes `pkg/controller/controller_utils.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, ObjectKey

# Seconds after which an event is more likely lost than late, and the controller goes on.
EXPIRY = 300.0


@dataclass
class _Expected:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)


class Expectations:
    """Open requests of one controller by the key of the pods' owner. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expected: dict[ObjectKey, _Expected] = {}

    def expect(self, owner: ObjectKey, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """Add expected events. Call before sending the requests."""
        uids = set(deletions)
        if not creations and not uids:
            return
        now = self._clock()
        expected = self._expected.setdefault(owner, _Expected(now))
        expected.since = now
        expected.creations += creations
        expected.deletions |= uids

    def created(self, owner: ObjectKey, count: int = 1) -> None:
        """Record that `count` creations were seen or have failed."""
        if (expected := self._expected.get(owner)) is not None:
            # More creations may be seen than were expected: adopted pods count, too.
            expected.creations = max(0, expected.creations - count)
            self._drop_if_met(owner)

    def deleted(self, owner: ObjectKey, uid: str) -> None:
        """Record that the deletion of `uid` was seen or has failed. Idempotent."""
        if (expected := self._expected.get(owner)) is not None:
            expected.deletions.discard(uid)
            self._drop_if_met(owner)

    def met(self, owner: ObjectKey) -> bool:
        """Whether no event is outstanding, or outstanding ones are so old that they must be lost."""
        expected = self._expected.get(owner)
        return expected is None or self._clock() - expected.since > EXPIRY

    def forget(self, owner: ObjectKey) -> None:
        self._expected.pop(owner, None)

    def _drop_if_met(self, owner: ObjectKey) -> None:
        expected = self._expected[owner]
        if not expected.creations and not expected.deletions:
            del self._expected[owner]


def owner_of(kind: Kind[Any], obj: Object) -> ObjectKey | None:
    """Return the controller of `obj` if it is of `kind`."""
    reference = obj.metadata.controller
    if reference is None or reference.kind != kind.name or reference.api_version != kind.api_version:
        return None
    return ObjectKey(obj.metadata.namespace, reference.name)


def observe_pod_change(expectations: Expectations, kind: Kind[Any], old: Pod | None, new: Pod | None) -> set[ObjectKey]:
    """Record an informer's pod event, and return the owners of `kind` that it concerns."""
    appeared = new is not None and (old is None or old.metadata.uid != new.metadata.uid)
    owners = set()
    if old is not None and (owner := owner_of(kind, old)) is not None:
        owners.add(owner)
        if new is None or new.is_terminating or appeared:
            expectations.deleted(owner, old.metadata.uid)
    if new is not None and (owner := owner_of(kind, new)) is not None:
        owners.add(owner)
        if appeared:
            expectations.created(owner)
    return owners
