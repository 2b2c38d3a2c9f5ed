"""What upstreams answered, for as long as they said and as far as it fits. Pure but for its state; the clock is given.

Only outside names come here: `resolver.py` asks the zone for the cluster's own, which are never cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import foreign, wire
from .foreign import Found
from .wire import Answer

_POPULAR = 3  # times asked within an answer's life
_LAST_PART = 0.1
_ENTRY_OVERHEAD = 400  # bytes that Python needs for an entry beside the body


@dataclass(slots=True)
class _Entry:
    found: Found
    stored: float
    expires: float
    asked: int = 0  # how often


class Cache:
    """At most `entries` answers and about `size` bytes; the least recently used go first.

    Positive answers are kept at most `longest` seconds, negative ones `longest_negative`; for `stale` seconds after
    their time `get_stale` still gives them. `may_keep` says of a name in wire form and of whether the answer is a no
    whether it is kept. `now` is monotonic, in seconds.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        entries: int = 10_000,
        size: int = 16 << 20,
        longest: float = 3600,
        longest_negative: float = 1800,
        stale: float = 0,
        may_keep: Callable[[bytes, bool], bool] = lambda name, is_negative: True,
    ) -> None:
        self._now = now
        self._most = entries
        self._most_bytes = size
        self._longest = longest
        self._longest_negative = longest_negative
        self._stale = stale
        self._may_keep = may_keep
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.size = 0
        self.hits = 0
        self.negative_hits = 0
        self.misses = 0
        self.prefetches = 0
        self.stale_hits = 0
        self.negatives = 0  # of the entries
        self.evictions = 0
        self.negative_evictions = 0

    def get(self, key: bytes) -> Answer | None:
        """With its TTLs run down."""
        entry = self._entries.get(key)
        now = self._now()
        if entry is None or now >= entry.expires:
            self.misses += 1
            return None
        self._entries.move_to_end(key)
        entry.asked += 1
        if entry.found.is_negative:
            self.negative_hits += 1
        else:
            self.hits += 1
        return foreign.aged(entry.found, int(now - entry.stored))

    def is_due(self, key: bytes) -> bool:
        """Whether to ask again before it is too late: it is popular, and the last tenth of its time has begun."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        is_late = self._now() > entry.expires - (entry.expires - entry.stored) * _LAST_PART
        return is_late and entry.asked >= _POPULAR

    def get_stale(self, key: bytes) -> Answer | None:
        """Something better than nothing, when nobody answers: at most `stale` seconds too old, TTLs 0 (RFC 8767)."""
        entry = self._entries.get(key)
        if entry is None or self._now() >= entry.expires + self._stale:
            return None
        self.stale_hits += 1
        return foreign.aged(entry.found, 1 << 31)

    def put(self, key: bytes, found: Found) -> None:
        """Keep it, if it is a yes or a sound no, and lives at all. A key is a question's and two bytes more."""
        if found.rcode not in (wire.NOERROR, wire.NXDOMAIN) or not self._may_keep(key[:-6], found.is_negative):
            return
        seconds = min(found.ttl, self._longest_negative if found.is_negative else self._longest)
        if seconds <= 0:
            return
        self._drop(key)
        now = self._now()
        self._entries[key] = _Entry(found, now, now + seconds)
        self.size += _size(key, found)
        self.negatives += found.is_negative
        while len(self._entries) > self._most or self.size > self._most_bytes:
            oldest = next(iter(self._entries))
            if self._entries[oldest].found.is_negative:
                self.negative_evictions += 1
            else:
                self.evictions += 1
            self._drop(oldest)

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= _size(key, entry.found)
            self.negatives -= entry.found.is_negative

    def __len__(self) -> int:
        return len(self._entries)


def make_keeping(cached: Iterable[str], uncached: Iterable[tuple[str, str]]) -> Callable[[bytes, bool], bool]:
    """`may_keep` of a configuration's `cached` and `uncached`."""
    kept = tuple(wire.encode_name(zone) for zone in cached)
    never = {
        is_negative: tuple(wire.encode_name(zone) for kind, zone in uncached if (kind == "denial") == is_negative)
        for is_negative in (False, True)
    }

    def may_keep(name: bytes, is_negative: bool) -> bool:
        return _is_in(name, kept) and not _is_in(name, never[is_negative])

    return may_keep


def _is_in(name: bytes, zones: tuple[bytes, ...]) -> bool:
    at = 0
    while name[at] and name[at:] not in zones:
        at += 1 + name[at]
    return name[at:] in zones


def _size(key: bytes, found: Found) -> int:
    return _ENTRY_OVERHEAD + len(key) + len(found.answer.body) + 8 * len(found.ttl_offsets)
