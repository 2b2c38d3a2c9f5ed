"""Id maps of a lab's user namespace: the ids of the machine that its users and groups have.

Pure: no I/O, no clock, no randomness. A lab has a user namespace of its own, so that its root has no rights on the
machine. If the machine's root starts the lab, the ids are a range that belongs to no user; otherwise they are the
user's own id and those that /etc/subuid grants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

# Enough for the ids of images and for the user nobody (65534).
RANGE = 1 << 16
# Ranges for pods with a user namespace of their own, on each node; they follow the lab's own ids.
POD_RANGES = 64
# The range for containers in systemd's "Users, Groups, UIDs and GIDs on systemd Systems".
_FIRST_CONTAINER_ID = 0x00080000
_LAST_CONTAINER_ID = 0x6FFFFFFF


class IdRange(NamedTuple):
    first: int
    size: int

    def contains(self, other: IdRange) -> bool:
        return self.first <= other.first and other.first + other.size <= self.first + self.size

    def overlaps(self, other: IdRange) -> bool:
        return self.first < other.first + other.size and other.first < self.first + self.size


class MapEntry(NamedTuple):
    """A line of /proc/PID/uid_map: `size` ids from `inside` on are the machine's from `outside` on."""

    inside: int
    outside: int
    size: int


class IdMap(msgspec.Struct, frozen=True, kw_only=True):
    """The maps of a user namespace. `is_granted`: newuidmap(1) writes them, because /etc/subuid grants the ids."""

    users: tuple[MapEntry, ...]
    groups: tuple[MapEntry, ...]
    is_granted: bool = False

    @property
    def root(self) -> tuple[int, int]:
        """The user and the group of the machine that the namespace's root has."""
        return self.users[0].outside, self.groups[0].outside

    @property
    def nested(self) -> IdMap:
        """The map of a namespace inside this one, in which all ids keep their numbers."""
        return IdMap(
            users=tuple(MapEntry(entry.inside, entry.inside, entry.size) for entry in self.users),
            groups=tuple(MapEntry(entry.inside, entry.inside, entry.size) for entry in self.groups),
        )


def parse_id_map(text: str) -> list[IdRange]:
    """Parse the ids that exist in a user namespace from its /proc/PID/uid_map."""
    return [IdRange(int(line.split()[0]), int(line.split()[2])) for line in text.splitlines()]


def parse_subordinate(text: str, names: Iterable[str]) -> list[IdRange]:
    """Parse the ranges that subuid(5) or subgid(5) grants to a user known by `names` (its name and its number)."""
    wanted = set(names)
    found = []
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) == 3 and (fields[0] in wanted or not wanted) and fields[1].isdecimal() and fields[2].isdecimal():
            found.append(IdRange(int(fields[1]), int(fields[2])))
    return found


def choose_base(key: str, own: Sequence[IdRange], taken: Sequence[IdRange]) -> int | None:
    """Return the first id of a range for a lab of the machine's root. A key has the same range if it is free.

    `own` are the ids that exist here, `taken` those that belong to users. None: no range is free, because this is a
    user namespace with few ids.
    """
    slots = (_LAST_CONTAINER_ID + 1 - _FIRST_CONTAINER_ID) // RANGE
    start = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) % slots
    for step in range(slots):
        candidate = IdRange(_FIRST_CONTAINER_ID + (start + step) % slots * RANGE, RANGE)
        if any(ids.contains(candidate) for ids in own) and not any(ids.overlaps(candidate) for ids in taken):
            return candidate.first
    return None


def describe_missing_ids(id_map: IdMap | None) -> str:
    """Return what pods lack without users beside root, and how to have these, "" if they exist."""
    if id_map is None or sum(entry.size for entry in id_map.users) > 1:
        return ""
    return (
        "Pods of this lab have no user but root: install newuidmap (Debian: apt-get install uidmap), get a range in"
        " /etc/subuid and /etc/subgid, and start the lab again."
    )


def choose_pod_ids(base: int, own: Sequence[IdRange], taken: Sequence[IdRange]) -> IdRange | None:
    """Return the ids for the pods of the lab whose own ids begin with `base`, always the same if they are free.

    None: no range is free.
    """
    size = POD_RANGES * RANGE
    slots = (_LAST_CONTAINER_ID + 1 - _FIRST_CONTAINER_ID) // size
    start = int.from_bytes(hashlib.sha256(str(base).encode()).digest()[:4]) % slots
    lab = IdRange(base, RANGE)
    for step in range(slots):
        candidate = IdRange(_FIRST_CONTAINER_ID + (start + step) % slots * size, size)
        is_free = not any(ids.overlaps(candidate) for ids in (lab, *taken))
        if is_free and any(ids.contains(candidate) for ids in own):
            return candidate
    return None


def map_range(base: int, pods: IdRange | None = None) -> IdMap:
    entries = [MapEntry(0, base, RANGE)]
    if pods is not None:
        entries.append(MapEntry(RANGE, pods.first, pods.size))
    return IdMap(users=tuple(entries), groups=tuple(entries))


def map_user(
    user: int, group: int, users: Sequence[IdRange], groups: Sequence[IdRange], *, is_granted: bool = True
) -> IdMap:
    """Return the map of an ordinary user's lab: root is the user; ids from 1 on are `users` and `groups`, if both
    exist. For `is_granted` see `IdMap`."""
    if not users or not groups:
        return IdMap(users=(MapEntry(0, user, 1),), groups=(MapEntry(0, group, 1),))
    return IdMap(users=_append(user, users), groups=_append(group, groups), is_granted=is_granted)


def _append(own: int, granted: Sequence[IdRange]) -> tuple[MapEntry, ...]:
    entries = [MapEntry(0, own, 1)]
    inside = 1
    for ids in granted:
        entries.append(MapEntry(inside, ids.first, ids.size))
        inside += ids.size
    return tuple(entries)
