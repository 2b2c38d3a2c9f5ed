"""What a controller has asked for and not yet seen, so that a stale informer never makes it ask twice.

A controller that is about to create or delete pods says so first; the informer's handlers tick off what arrives. Until
everything has arrived the controller only reports status. Creations are counted (their names are the server's choice),
deletions are remembered by uid (a pod is marked as terminating and later removed: two events, one deletion).
Source: Kubernetes `pkg/controller/controller_utils.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, ObjectKey

# After this many seconds a lost event is likelier than a slow one, and the controller looks again.
EXPIRY = 300.0


@dataclass
class _Expected:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)


class Expectations:
    """One controller's open requests, by the key of the object that owns the pods. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expected: dict[ObjectKey, _Expected] = {}

    def expect(self, owner: ObjectKey, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """Add to what is expected; call it before the requests are sent."""
        uids = set(deletions)
        if not creations and not uids:
            return
        now = self._clock()
        expected = self._expected.setdefault(owner, _Expected(now))
        expected.since = now
        expected.creations += creations
        expected.deletions |= uids

    def created(self, owner: ObjectKey, count: int = 1) -> None:
        """`count` creations were seen, or have failed."""
        if (expected := self._expected.get(owner)) is not None:
            # More may arrive than was asked for: an adopted pod counts as well.
            expected.creations = max(0, expected.creations - count)
            self._drop_if_met(owner)

    def deleted(self, owner: ObjectKey, uid: str) -> None:
        """The deletion of `uid` was seen, or has failed. Repeating it changes nothing."""
        if (expected := self._expected.get(owner)) is not None:
            expected.deletions.discard(uid)
            self._drop_if_met(owner)

    def met(self, owner: ObjectKey) -> bool:
        """Whether nothing is outstanding, or has been for so long that its events must be lost."""
        expected = self._expected.get(owner)
        return expected is None or self._clock() - expected.since > EXPIRY

    def forget(self, owner: ObjectKey) -> None:
        self._expected.pop(owner, None)

    def _drop_if_met(self, owner: ObjectKey) -> None:
        expected = self._expected[owner]
        if not expected.creations and not expected.deletions:
            del self._expected[owner]


def owner_of(kind: Kind[Any], obj: Object) -> ObjectKey | None:
    """The object of `kind` that manages `obj`, if it is one of that kind."""
    reference = obj.metadata.controller
    if reference is None or reference.kind != kind.name or reference.api_version != kind.api_version:
        return None
    return ObjectKey(obj.metadata.namespace, reference.name)


def note_pod_change(expectations: Expectations, kind: Kind[Any], old: Pod | None, new: Pod | None) -> set[ObjectKey]:
    """Tick off what an informer's event tells, and return the owners of `kind` it concerns."""
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
