"""Checks of the events of watchers: every change once and in order, the same for all, and every acknowledged write.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """A change of one object. `name` has the namespace; `state` is the text of the write that made the object so."""

    revision: int
    type: str
    name: str
    uid: str
    state: str


@dataclass(slots=True)
class Sight:
    """The events of one watcher of one resource, in the order of their arrival.

    `too_old` counts the watches that the server refused to continue (410).
    """

    watcher: str
    resource: str
    events: list[Event] = field(default_factory=list)
    too_old: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A write of a resource whose answer had this version. Deletions have no version in their answer."""

    resource: str
    name: str
    revision: int
    state: str


def all_changes(sights: Iterable[Sight], resource: str) -> Sequence[Event]:
    """Return every change of a resource that any watcher saw, in the order of their revisions."""
    seen = {event.revision: event for sight in sights if sight.resource == resource for event in sight.events}
    return [seen[revision] for revision in sorted(seen)]


def find_wrong(sights: Sequence[Sight], acknowledged: Iterable[Acknowledged]) -> Iterator[str]:
    """Yield what is wrong about the events, one line each."""
    changes = {resource: all_changes(sights, resource) for resource in sorted({one.resource for one in sights})}
    for sight in sights:
        yield from (f"{sight.watcher} of {sight.resource}: {line}" for line in _differences(sight, changes))
    for resource, events in changes.items():
        yield from (f"{resource}: {line}" for line in _find_impossible(events))
    by_revision = {resource: {event.revision: event for event in events} for resource, events in changes.items()}
    for write in acknowledged:
        event = by_revision.get(write.resource, {}).get(write.revision)
        if event is None or (event.name, event.state) != (write.name, write.state):
            yield f"{write.resource}: acknowledged was {write}, seen was {event}"


def _differences(sight: Sight, changes: Mapping[str, Sequence[Event]]) -> Iterator[str]:
    """Yield how a watcher differs from all watchers together."""
    if sight.too_old:
        yield f"{sight.too_old} watches were refused as too old"
    last = 0
    for event in sight.events:
        if event.revision <= last:
            yield f"revision {event.revision} came after {last}"
        last = event.revision
    expected = {event.revision: event for event in changes[sight.resource]}
    seen = {event.revision: event for event in sight.events}
    missing = sorted(expected.keys() - seen.keys())
    if missing:
        yield f"{len(missing)} of {len(expected)} changes are missing, the first is {expected[missing[0]]}"
    yield from (f"saw {event}, another watcher {expected[at]}" for at, event in seen.items() if event != expected[at])


def _find_impossible(events: Iterable[Event]) -> Iterator[str]:
    """Yield changes that do not follow from those before, such as the deletion of what is not there."""
    there: dict[str, str] = {}
    uids: set[str] = set()
    for event in events:
        before = there.get(event.name)
        if (event.type == "ADDED") != (before is None):
            yield f"{event} follows {'nothing' if before is None else 'the object ' + before}"
        elif before is not None and event.uid != before:
            yield f"{event} has another uid than the object before, {before}"
        elif before is None and event.uid in uids:
            yield f"{event} has the uid of an earlier object"
        uids.add(event.uid)
        if event.type == "DELETED":
            there.pop(event.name, None)
        else:
            there[event.name] = event.uid


def objects_after(events: Iterable[Event]) -> Mapping[str, int]:
    """Return the objects that are left after the events, by name, with their versions."""
    left: dict[str, int] = {}
    for event in events:
        left.pop(event.name, None)
        if event.type != "DELETED":
            left[event.name] = event.revision
    return left


def most_at_once(events: Iterable[Event], namespace: str) -> int:
    """Return how many objects of a namespace there were at most."""
    there: set[str] = set()
    most = 0
    for event in events:
        if event.name.startswith(f"{namespace}/"):
            (there.discard if event.type == "DELETED" else there.add)(event.name)
            most = max(most, len(there))
    return most
