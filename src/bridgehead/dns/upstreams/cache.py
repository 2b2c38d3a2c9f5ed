"""Cache of upstreams' answers: what is kept, how long, and the TTLs that clients see (source: CoreDNS' plugin `cache`).

Pure: no I/O, no clock, no randomness. The caller passes the clock.

Names of the cluster are never in the cache: `resolver.py` looks them up in the zone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bridgehead.dns.config import CacheSettings
from bridgehead.dns.messages import upstream_replies, wire
from bridgehead.dns.messages.replies import Answer
from bridgehead.dns.messages.upstream_replies import UpstreamAnswer

_ENTRY_OVERHEAD = 400  # bytes that Python needs for an entry besides the body
_BEHIND_NAME = 6  # bytes of a key behind the name: type, class, DO, CD
_FAILURES = (wire.SERVFAIL, wire.NOTIMP)  # response codes that `servfail` is for


@dataclass(slots=True)
class _Entry:
    found: UpstreamAnswer
    settings: CacheSettings
    stored: float
    expires: float
    hits: int = 0
    last_hit: float = 0.0


class Cache:
    """Answers by key: the question, and two bytes for DO and CD. `now` is monotonic, in seconds.

    `blocks` have settings of their own for a domain and all names below; `settings` are those of all other names. The
    least recently used answers are evicted: there are at most as many positive and as many negative ones as all
    settings together allow, and about `size` bytes. Addresses rotate with each answer.
    """

    def __init__(
        self,
        now: Callable[[], float],
        settings: CacheSettings = CacheSettings(),  # noqa: B008 - frozen
        blocks: Iterable[tuple[str, CacheSettings]] = (),
        *,
        size: int = 16 << 20,
    ) -> None:
        self._now = now
        self._settings = {wire.encode_name(domain): found for domain, found in blocks}
        self._settings.setdefault(b"\0", settings)
        self._zones = {id(found): _Zones(found) for found in self._settings.values()}
        every = self._settings.values()
        self._most = {False: sum(one.capacity for one in every), True: sum(one.negative_capacity for one in every)}
        self._max_size = size
        self._entries: dict[bool, OrderedDict[bytes, _Entry]] = {False: OrderedDict(), True: OrderedDict()}
        self._turn = 0
        self.size = 0
        self.hits = 0
        self.negative_hits = 0
        self.misses = 0
        self.prefetches = 0
        self.stale_hits = 0
        self.evictions = 0
        self.negative_evictions = 0

    @property
    def negatives(self) -> int:
        """The number of entries without an answer."""
        return len(self._entries[True])

    def settings_for(self, key: bytes) -> CacheSettings:
        """Return the settings of the longest domain that has the name in the key."""
        name = key[:-_BEHIND_NAME]
        return next(self._settings[name[at:]] for at in _label_offsets(name) if name[at:] in self._settings)

    def get(self, key: bytes) -> Answer | None:
        """Return the answer with its TTLs reduced by its age; None if there is none."""
        entry = self._find(key)
        now = self._now()
        if entry is None or now >= entry.expires:
            self.misses += 1
            return None
        is_negative = entry.found.is_negative
        self._entries[is_negative].move_to_end(key)
        if now - entry.last_hit >= entry.settings.prefetch.gap_seconds:
            entry.hits = 0
        entry.hits += 1
        entry.last_hit = now
        if is_negative:
            self.negative_hits += 1
        else:
            self.hits += 1
        self._turn += 1
        return upstream_replies.aged(
            entry.found, 0 if entry.settings.keeps_ttl else int(now - entry.stored), self._turn
        )

    def is_prefetch_due(self, key: bytes) -> bool:
        """Whether to ask upstreams again: the answer had enough hits, and is in the last part of its TTL."""
        entry = self._find(key)
        if entry is None:
            return False
        prefetch = entry.settings.prefetch
        part = (entry.expires - entry.stored) * prefetch.percentage / 100
        return 0 < prefetch.hits <= entry.hits and self._now() > entry.expires - part

    def get_stale(self, key: bytes) -> Answer | None:
        """Return an answer that expired within the time of `serve_stale`, with TTLs of 0 (RFC 8767)."""
        entry = self._find(key)
        if entry is None or not self._is_usable(entry):
            return None
        self.stale_hits += 1
        return upstream_replies.aged(entry.found, 1 << 31)

    def limit(self, key: bytes, found: UpstreamAnswer) -> UpstreamAnswer:
        """Return the answer with TTLs within the limits for its name."""
        settings = self.settings_for(key)
        if not self._zones[id(settings)].has(key[:-_BEHIND_NAME]):
            return found
        limits = settings.negative_ttl if found.is_negative else settings.ttl
        return upstream_replies.with_ttls(found, limits.apply)

    def put(self, key: bytes, found: UpstreamAnswer) -> None:
        """Keep an answer that `limit` returned: a NOERROR or NXDOMAIN with a TTL, or a failure for a short time."""
        settings = self.settings_for(key)
        if not self._zones[id(settings)].keeps(key[:-_BEHIND_NAME], found.is_negative):
            return
        seconds: float = settings.servfail_seconds if found.rcode in _FAILURES else 0
        if found.rcode in (wire.NOERROR, wire.NXDOMAIN):
            limits = settings.negative_ttl if found.is_negative else settings.ttl
            seconds = min(found.ttl, limits.longest)
        elif (known := self._find(key)) is not None and self._is_usable(known):
            return  # a stale answer is better than a failure
        if seconds <= 0:
            return
        self._drop(key)
        now = self._now()
        self._entries[found.is_negative][key] = _Entry(found, settings, now, now + seconds)
        self.size += _size(key, found)
        while len(self._entries[found.is_negative]) > self._most[found.is_negative]:
            self._evict(found.is_negative)
        while self.size > self._max_size:
            self._evict(len(self._entries[True]) > len(self._entries[False]))

    def _find(self, key: bytes) -> _Entry | None:
        return self._entries[False].get(key) or self._entries[True].get(key)

    def _is_usable(self, entry: _Entry) -> bool:
        """Whether the answer may be used, at least in place of a failure. Failures are never stale answers."""
        return entry.found.rcode not in _FAILURES and self._now() < entry.expires + entry.settings.stale_seconds

    def _evict(self, is_negative: bool) -> None:
        if is_negative:
            self.negative_evictions += 1
        else:
            self.evictions += 1
        self._drop(next(iter(self._entries[is_negative])))

    def _drop(self, key: bytes) -> None:
        entry = self._entries[False].pop(key, None) or self._entries[True].pop(key, None)
        if entry is not None:
            self.size -= _size(key, entry.found)

    def __len__(self) -> int:
        return len(self._entries[False]) + len(self._entries[True])


class _Zones:
    """The zones of one `cache` directive, in wire form."""

    def __init__(self, settings: CacheSettings) -> None:
        self._included = frozenset(map(wire.encode_name, settings.zones))
        self._excluded = {
            is_negative: frozenset(
                wire.encode_name(zone) for kind, zone in settings.uncached if (kind == "denial") == is_negative
            )
            for is_negative in (False, True)
        }

    def has(self, name: bytes) -> bool:
        """Whether the directive is for this name."""
        return _is_in(name, self._included)

    def keeps(self, name: bytes, is_negative: bool) -> bool:
        """Whether answers for this name are kept."""
        return self.has(name) and not _is_in(name, self._excluded[is_negative])


def _is_in(name: bytes, zones: frozenset[bytes]) -> bool:
    return any(name[at:] in zones for at in _label_offsets(name))


def _label_offsets(name: bytes) -> Iterable[int]:
    """Yield the offsets of the labels of a name in wire form, and that of the root."""
    at = 0
    while name[at]:
        yield at
        at += 1 + name[at]
    yield at


def _size(key: bytes, found: UpstreamAnswer) -> int:
    return _ENTRY_OVERHEAD + len(key) + len(found.answer.body) + 8 * len(found.ttl_offsets)
