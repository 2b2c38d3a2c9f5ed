"""Event correlation: repeated events raise a count, similar ones are aggregated, floods are dropped.

Pure: no I/O, no clock, no randomness. Source: client-go `tools/record/events_cache.go`, with its defaults: an
object may cause 25 events at once and one more every five minutes; ten events within ten minutes that differ only in
their message are aggregated into one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

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
    """Something that happened to an object. `type`: Normal or Warning; `at`: seconds since the epoch.

    `is_shared`: several processes see it, and their Events are to be one.
    """

    about: ObjectReference
    type: str
    reason: str
    message: str
    at: float
    is_shared: bool = False


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
    about: ObjectReference  # without version and field; one value for all that is kept of an object
    tokens: float
    at: float


class _Fold(NamedTuple):
    messages: tuple[str, ...]
    begun: float


class _Series(NamedTuple):
    """`number` Events that are written as one. `first`: when the first of them happened, which its name is made of."""

    number: int
    first: float


class Correlator:
    """Counts, messages and token buckets of recent events."""

    def __init__(self) -> None:
        self._buckets: _Recent[ObjectReference, _Bucket] = _Recent()
        self._folds: _Recent[tuple[ObjectReference, str, str], _Fold] = _Recent()
        self._series: _Recent[tuple[tuple[ObjectReference, str, str], str], _Series] = _Recent()

    def correlate(self, occurrence: Occurrence) -> CorrelatedEvent | None:
        """Return the Event to write; None when the object has caused too many events."""
        about, at = occurrence.about, occurrence.at
        bucket = self._bucket(_reference(about), at)
        counted = _reference(about, about.field_path) if about.field_path else bucket.about
        kind = (counted, occurrence.type, occurrence.reason)
        fold = self._folds.get(kind)
        if fold is None or at - fold.begun > FOLD_SECONDS:
            fold = _Fold((), at)
        if occurrence.message not in fold.messages:
            fold = fold._replace(messages=(*fold.messages, occurrence.message))
        is_folded = len(fold.messages) >= FOLD_AFTER
        if is_folded:
            fold = fold._replace(messages=fold.messages[1:])  # only their number counts from now on
            message = FOLDED_PREFIX + occurrence.message
            occurrence = Occurrence(about, occurrence.type, occurrence.reason, message, at)
        self._folds.put(kind, fold)
        identity = (kind, "" if is_folded else occurrence.message)
        before = self._series.get(identity) or _Series(0, at)
        series = _Series(before.number + 1, before.first)
        self._series.put(identity, series)
        # As in client-go, what is dropped has been counted: the next Event that is written has the whole number.
        if bucket.tokens < 1:
            return None
        bucket.tokens -= 1
        name = f"{about.name}.{_digest(occurrence) if occurrence.is_shared else format(int(series.first * 1e9), 'x')}"
        return CorrelatedEvent(occurrence, name, about.namespace or "default", series.number, series.first)

    def _bucket(self, about: ObjectReference, at: float) -> _Bucket:
        """Return the bucket of an object, with the tokens that it has now."""
        bucket = self._buckets.get(about) or _Bucket(about, BURST, at)
        bucket.tokens = min(BURST, bucket.tokens + max(0.0, at - bucket.at) / SECONDS_PER_TOKEN)
        bucket.at = at
        self._buckets.put(bucket.about, bucket)
        return bucket


K = TypeVar("K")


class _Recent(Generic[K, V]):
    """A dict that drops the entry put longest ago when it is full."""

    def __init__(self) -> None:
        self._items: dict[K, V] = {}  # the entry put longest ago first; an OrderedDict takes twice as much

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        self._items.pop(key, None)
        self._items[key] = value
        if len(self._items) > REMEMBERED:
            del self._items[next(iter(self._items))]


def _digest(occurrence: Occurrence) -> str:
    """Return the end of the name of an Event that several processes record: made of its content and not of the time."""
    about = occurrence.about
    content = (about.uid, about.field_path, occurrence.type, occurrence.reason, occurrence.message)
    return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]


def _reference(about: ObjectReference, field_path: str = "") -> ObjectReference:
    """Return the reference without the object's version, to another field of it."""
    return ObjectReference(
        api_version=about.api_version,
        kind=about.kind,
        name=about.name,
        namespace=about.namespace,
        uid=about.uid,
        field_path=field_path,
    )
