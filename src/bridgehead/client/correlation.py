"""Event correlation: repeated events raise a count, similar ones are aggregated, floods are dropped.

Pure: no I/O, no clock, no randomness. Source: client-go `tools/record/events_cache.go`, with its defaults: an
object may cause 25 events at once and one more every five minutes; ten events within ten minutes that differ only in
their message are aggregated into one.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from bridgehead.objects.meta import ObjectReference

BURST = 25
SECONDS_PER_TOKEN = 300.0
FOLD_AFTER = 10
FOLD_SECONDS = 600.0
REMEMBERED = 4096
FOLDED_PREFIX = "(combined from similar events): "

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened to an object. `type`: Normal or Warning; `at`: seconds since the epoch."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    at: float


@dataclass(frozen=True, slots=True)
class CorrelatedEvent:
    """The Event to write: a new one when `count` is 1, else the existing one called `name` with a higher count."""

    occurrence: Occurrence
    name: str
    namespace: str
    count: int
    first: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class _Fold:
    messages: set[str]
    begun: float


class Correlator:
    """Counts, messages and token buckets of recent events."""

    def __init__(self) -> None:
        self._buckets: _Recent[ObjectReference, _Bucket] = _Recent()
        self._folds: _Recent[tuple[ObjectReference, str, str], _Fold] = _Recent()
        self._events: _Recent[tuple[ObjectReference, str, str, str], CorrelatedEvent] = _Recent()

    def correlate(self, occurrence: Occurrence) -> CorrelatedEvent | None:
        """Return the Event to write; None when the object has caused too many events."""
        about = _without_version(occurrence.about)
        if not self._has_token(_without_field(about), occurrence.at):
            return None
        kind = (about, occurrence.type, occurrence.reason)
        fold = self._folds.get(kind)
        if fold is None or occurrence.at - fold.begun > FOLD_SECONDS:
            fold = _Fold(set(), occurrence.at)
        fold.messages.add(occurrence.message)
        self._folds.put(kind, fold)
        is_folded = len(fold.messages) >= FOLD_AFTER
        if is_folded:
            fold.messages.pop()  # only their number counts from now on
            occurrence = Occurrence(
                occurrence.about, occurrence.type, occurrence.reason, FOLDED_PREFIX + occurrence.message, occurrence.at
            )
        identity = (*kind, "" if is_folded else occurrence.message)
        before = self._events.get(identity)
        if before is None:
            name = f"{about.name}.{int(occurrence.at * 1e9):x}"
            event = CorrelatedEvent(occurrence, name, about.namespace or "default", 1, occurrence.at)
        else:
            event = CorrelatedEvent(occurrence, before.name, before.namespace, before.count + 1, before.first)
        self._events.put(identity, event)
        return event

    def _has_token(self, about: ObjectReference, at: float) -> bool:
        bucket = self._buckets.get(about) or _Bucket(BURST, at)
        bucket.tokens = min(BURST, bucket.tokens + max(0.0, at - bucket.at) / SECONDS_PER_TOKEN)
        bucket.at = at
        self._buckets.put(about, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


K = TypeVar("K")


class _Recent(Generic[K, V]):
    """A dict that drops the entry put longest ago when it is full."""

    def __init__(self) -> None:
        self._items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > REMEMBERED:
            self._items.popitem(last=False)


def _without_version(about: ObjectReference) -> ObjectReference:
    return ObjectReference(
        api_version=about.api_version,
        kind=about.kind,
        name=about.name,
        namespace=about.namespace,
        uid=about.uid,
        field_path=about.field_path,
    )


def _without_field(about: ObjectReference) -> ObjectReference:
    if not about.field_path:
        return about
    return ObjectReference(
        api_version=about.api_version, kind=about.kind, name=about.name, namespace=about.namespace, uid=about.uid
    )
