"""Records of a store, and the writes and changes of them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

JsonObject = dict[str, Any]


class Key(NamedTuple):
    """The key of an object. `resource` is `services` or `deployments.apps`; `namespace` may be ""."""

    resource: str
    namespace: str
    name: str


# The next three classes are immutable by convention. There are as many of them as objects: as msgspec's structs, they
# take half the time to make, and none of the garbage collector's, which need not look at them (they have no cycles).
class Facts(msgspec.Struct, gc=False, omit_defaults=True):
    """Properties of an object that the store reads without decoding it: labels, selectable fields, claims.

    A claim is a name that only one stored object may hold at a time, across all resources (`clusterip/10.96.0.9`,
    `nodeport/30080`). Claims are taken, exchanged and released in the same commit as the object's own write. This makes
    the allocation of addresses and ports atomic, also with several API servers on one store.
    """

    labels: Mapping[str, str] = {}
    fields: Mapping[str, str] = {}
    claims: frozenset[str] = frozenset()


class Record(msgspec.Struct, gc=False):
    """A stored object. `value` is its encoded JSON, including `metadata.resourceVersion`."""

    key: Key
    revision: int
    value: bytes
    facts: Facts


class Change(msgspec.Struct, weakref=True, eq=False):
    """One write, for watchers. `type` is ADDED, MODIFIED or DELETED.

    `previous` is the object before the write: a watcher with a selector needs it to find objects that left its
    selection. The `record` of a DELETED change is the last state with the deletion's revision. All watchers get the
    same Change, and Changes compare by identity: derived data (a table row) may be kept in a
    `weakref.WeakKeyDictionary`.
    """

    type: str
    record: Record
    previous: Record | None = None


class FieldValue(NamedTuple):
    """A value of a field of `Facts`. A watch of it needs the changes of objects that have it before or after."""

    name: str
    value: str

    def is_of(self, change: Change) -> bool:
        """Whether the object has this value before or after the change."""
        if change.record.facts.fields.get(self.name) == self.value:
            return True
        return change.previous is not None and change.previous.facts.fields.get(self.name) == self.value


class Create(msgspec.Struct):
    """A new object. `also`: writes of other objects that are committed with this one, or not at all.

    A write in `also` has no such writes of its own, and is the only one of its object in the commit. `claim` is for a
    write in `also`: what the refusal names when the object exists. `max_bytes` bounds the encoded object; 0: no bound.
    """

    key: Key
    value: JsonObject
    facts: Facts
    also: tuple[Companion, ...] = ()
    claim: str = ""
    max_bytes: int = 0


class Update(msgspec.Struct):
    """The replacement of an object whose revision is still `expected`."""

    key: Key
    value: JsonObject
    facts: Facts
    expected: int
    also: tuple[Companion, ...] = ()
    max_bytes: int = 0


class Delete(msgspec.Struct):
    """The removal of an object. An object that does not exist is no error in `also` of another write."""

    key: Key
    expected: int | None
    also: tuple[Companion, ...] = ()


class Unchanged(msgspec.Struct):
    """The condition, in `also` of a write, that another object still has the revision `expected`."""

    key: Key
    expected: int


Write = Create | Update | Delete
# Writes that are committed with another one, and its conditions.
Companion = Write | Unchanged
Companions = tuple[Companion, ...]
