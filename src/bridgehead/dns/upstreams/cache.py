"""Cache of upstreams' answers, for their TTL and within a limit of memory.

Pure: no I/O, no clock, no randomness. The caller passes the clock.

Names of the cluster are never in the cache: `resolver.py` looks them up in the zone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bridgehead.dns.messages import foreign, wire
from bridgehead.dns.messages.foreign import UpstreamAnswer
from bridgehead.dns.messages.replies import Answer

_PREFETCH_HITS = 3  # within an answer's TTL
_PREFETCH_PART = 0.1  # of the TTL, at its end
_ENTRY_OVERHEAD = 400  # bytes that Python needs for an entry besides the body


@dataclass(slots=True)
class _Entry:
    found: UpstreamAnswer
    stored: float
    expires: float
    hits: int = 0


class Cache:
    """At most `entries` answers and about `size` bytes; the least recently used are evicted first.

    Positive answers are kept at most `longest` seconds, negative ones `longest_negative`; `get_stale` returns them for
    `stale` seconds more. `is_cacheable(name, is_negative)` selects the answers that are kept; names are in wire form.
    `now` is monotonic, in seconds.
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
        is_cacheable: Callable[[bytes, bool], bool] = lambda name, is_negative: True,
    ) -> None:
        self._now = now
        self._max_entries = entries
        self._max_size = size
        self._longest = longest
        self._longest_negative = longest_negative
        self._stale = stale
        self._is_cacheable = is_cacheable
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
        """Return the answer with its TTLs reduced by its age; None if there is none."""
        entry = self._entries.get(key)
        now = self._now()
        if entry is None or now >= entry.expires:
            self.misses += 1
            return None
        self._entries.move_to_end(key)
        entry.hits += 1
        if entry.found.is_negative:
            self.negative_hits += 1
        else:
            self.hits += 1
        return foreign.aged(entry.found, int(now - entry.stored))

    def is_prefetch_due(self, key: bytes) -> bool:
        """Whether to ask upstreams again: the answer had enough hits, and is in the last tenth of its TTL."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        is_late = self._now() > entry.expires - (entry.expires - entry.stored) * _PREFETCH_PART
        return is_late and entry.hits >= _PREFETCH_HITS

    def get_stale(self, key: bytes) -> Answer | None:
        """Return an answer that expired at most `stale` seconds ago, with TTLs of 0 (RFC 8767)."""
        entry = self._entries.get(key)
        if entry is None or self._now() >= entry.expires + self._stale:
            return None
        self.stale_hits += 1
        return foreign.aged(entry.found, 1 << 31)

    def put(self, key: bytes, found: UpstreamAnswer) -> None:
        """Keep a NOERROR or NXDOMAIN with a TTL. The key is that of the question, and two bytes for DO and CD."""
        if found.rcode not in (wire.NOERROR, wire.NXDOMAIN) or not self._is_cacheable(key[:-6], found.is_negative):
            return
        seconds = min(found.ttl, self._longest_negative if found.is_negative else self._longest)
        if seconds <= 0:
            return
        self._drop(key)
        now = self._now()
        self._entries[key] = _Entry(found, now, now + seconds)
        self.size += _size(key, found)
        self.negatives += found.is_negative
        while len(self._entries) > self._max_entries or self.size > self._max_size:
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


def cache_policy(cached: Iterable[str], uncached: Iterable[tuple[str, str]]) -> Callable[[bytes, bool], bool]:
    """Return `Cache`'s `is_cacheable` for the settings `cached` and `uncached`."""
    included = tuple(wire.encode_name(zone) for zone in cached)
    excluded = {
        is_negative: tuple(wire.encode_name(zone) for kind, zone in uncached if (kind == "denial") == is_negative)
        for is_negative in (False, True)
    }

    def is_cacheable(name: bytes, is_negative: bool) -> bool:
        return _is_in(name, included) and not _is_in(name, excluded[is_negative])

    return is_cacheable


def _is_in(name: bytes, zones: tuple[bytes, ...]) -> bool:
    at = 0
    while name[at] and name[at:] not in zones:
        at += 1 + name[at]
    return name[at:] in zones


def _size(key: bytes, found: UpstreamAnswer) -> int:
    return _ENTRY_OVERHEAD + len(key) + len(found.answer.body) + 8 * len(found.ttl_offsets)
