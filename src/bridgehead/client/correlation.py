"""Which Events are worth writing, and how: repeats raise a count, floods are folded or dropped. Pure.

Source: client-go `tools/record/events_cache.go`, its defaults included: an object may cause 25 events at once and one
more every five minutes; ten that differ only in their message within ten minutes are folded into one.
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


@dataclass(frozen=True)
class Happening:
    """Something to tell about an object; `type` is Normal or Warning, `at` seconds since the epoch."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    at: float


@dataclass(frozen=True)
class Sighting:
    """What to write: `count` is 1 for a new Event; `name` and `first` are those of the Event to write or raise."""

    happening: Happening
    name: str
    namespace: str
    count: int
    first: float


@dataclass
class _Bucket:
    tokens: float
    at: float


@dataclass
class _Fold:
    messages: set[str]
    begun: float


class Correlator:
    """Remembers what was told lately."""

    def __init__(self) -> None:
        self._buckets: _Recent[ObjectReference, _Bucket] = _Recent()
        self._folds: _Recent[tuple[ObjectReference, str, str], _Fold] = _Recent()
        self._sightings: _Recent[tuple[ObjectReference, str, str, str], Sighting] = _Recent()

    def see(self, happening: Happening) -> Sighting | None:
        """What to write about it; None when its object has caused too many events."""
        about = _without_version(happening.about)
        if not self._has_token(_without_field(about), happening.at):
            return None
        kind = (about, happening.type, happening.reason)
        fold = self._folds.get(kind)
        if fold is None or happening.at - fold.begun > FOLD_SECONDS:
            fold = _Fold(set(), happening.at)
        fold.messages.add(happening.message)
        self._folds.put(kind, fold)
        is_folded = len(fold.messages) >= FOLD_AFTER
        if is_folded:
            fold.messages.pop()  # only their number matters from now on
            happening = Happening(
                happening.about, happening.type, happening.reason, FOLDED_PREFIX + happening.message, happening.at
            )
        identity = (*kind, "" if is_folded else happening.message)
        before = self._sightings.get(identity)
        if before is None:
            name = f"{about.name}.{int(happening.at * 1e9):x}"
            sighting = Sighting(happening, name, about.namespace or "default", 1, happening.at)
        else:
            sighting = Sighting(happening, before.name, before.namespace, before.count + 1, before.first)
        self._sightings.put(identity, sighting)
        return sighting

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
    """A dict that forgets what was put longest ago."""

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
    return ObjectReference(
        api_version=about.api_version, kind=about.kind, name=about.name, namespace=about.namespace, uid=about.uid
    )
