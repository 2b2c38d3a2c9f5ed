"""The cache of upstreams' answers: lifetimes, prefetching, stale answers, limits and exclusions."""

from __future__ import annotations

import pytest

from bridgehead.dns.config import CacheSettings, Prefetch, TtlLimits
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.replies import Answer, head
from bridgehead.dns.messages.upstream_replies import UpstreamAnswer
from bridgehead.dns.messages.wire import encode_name
from bridgehead.dns.upstreams.cache import Cache

A = (1).to_bytes(2) + (1).to_bytes(2)  # type A, class IN
RECORD = b"\xc0\x0c" + A


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock():
    return Clock()


def key(name: str) -> bytes:
    return encode_name(name) + A + bytes(2)


def answer(ttl: int, rcode: int = wire.NOERROR, *, is_negative: bool = False) -> UpstreamAnswer:
    body = RECORD + ttl.to_bytes(4) + b"\0\4\1\2\3\4"
    return UpstreamAnswer(Answer(head(rcode, 0 if is_negative else 1), body, 0), (len(RECORD),), ttl)


def ttl_of(found: Answer | None) -> int | None:
    return None if found is None else int.from_bytes(found.body[len(RECORD) : len(RECORD) + 4])


def cached(clock, **settings) -> Cache:
    return Cache(clock, CacheSettings(**settings))


@pytest.mark.parametrize(
    ("stored", "after", "left"),
    [(30, 0, 30), (30, 29.9, 1), (30, 30, None), (5000, 3599, 1401), (5000, 3600, None)],
)
def test_an_answer_lives_for_its_ttl_and_at_most_for_the_limit(clock, stored, after, left):
    """An answer's TTL decreases with age (RFC 1035 3.2.1); a second that has begun counts whole."""
    cache = cached(clock, ttl=TtlLimits(0, 3600))
    cache.put(key("a"), answer(stored))
    clock.time += after
    assert ttl_of(cache.get(key("a"))) == left
    assert (cache.hits, cache.misses) == ((0, 1) if left is None else (1, 0))


def test_a_negative_answer_has_its_own_limit(clock):
    cache = cached(clock, negative_ttl=TtlLimits(0, 5))
    cache.put(key("a"), answer(60, wire.NXDOMAIN, is_negative=True))
    clock.time += 4
    assert cache.get(key("a")) is not None
    assert (cache.hits, cache.negative_hits, cache.negatives) == (0, 1, 1)
    clock.time += 1
    assert cache.get(key("a")) is None


@pytest.mark.parametrize("found", [answer(60, wire.SERVFAIL), answer(60, wire.REFUSED), answer(0)])
def test_answers_that_are_not_kept(clock, found):
    cache = Cache(clock)
    cache.put(key("a"), found)
    assert len(cache) == cache.size == 0


def test_a_new_answer_replaces_the_old_one(clock):
    cache = Cache(clock)
    cache.put(key("a"), answer(60, is_negative=True))
    size = cache.size
    cache.put(key("a"), answer(30))
    assert (len(cache), cache.size, cache.negatives, cache.evictions) == (1, size, 0, 0)
    assert ttl_of(cache.get(key("a"))) == 30


def test_the_least_recently_used_answer_of_its_kind_is_evicted_first(clock):
    cache = cached(clock, capacity=2, negative_capacity=1)
    for name in ("a", "b", "no"):
        cache.put(key(name), answer(60, is_negative=name == "no"))
    cache.get(key("a"))
    cache.put(key("c"), answer(60))
    assert [cache.get(key(name)) is not None for name in ("a", "b", "c", "no")] == [True, False, True, True]
    assert (cache.evictions, cache.negative_evictions) == (1, 0)
    cache.put(key("never"), answer(60, is_negative=True))
    assert (cache.evictions, cache.negative_evictions, cache.get(key("no"))) == (1, 1, None)


def test_the_size_has_a_limit(clock):
    probe = Cache(clock)
    probe.put(key("a"), answer(60))
    cache = Cache(clock, size=2 * probe.size)
    for name in ("a", "b", "c"):
        cache.put(key(name), answer(60))
    assert (len(cache), cache.size) == (2, 2 * probe.size)
    assert cache.get(key("a")) is None


@pytest.mark.parametrize(
    ("hits", "after", "is_due"),
    [(3, 95, True), (3, 89, False), (2, 95, False)],
    ids=["popular and late", "early", "seldom used"],
)
def test_prefetching(clock, hits, after, is_due):
    cache = Cache(clock)
    cache.put(key("a"), answer(100))
    for _ in range(hits):
        cache.get(key("a"))
    clock.time += after
    assert cache.is_prefetch_due(key("a")) is is_due
    assert not cache.is_prefetch_due(key("b"))


@pytest.mark.parametrize(("after", "is_found"), [(10, True), (109, True), (110, False)])
def test_a_stale_answer(clock, after, is_found):
    """Upstreams are down: an answer that expired is better than none, with TTL 0."""
    cache = cached(clock, stale_seconds=100)
    cache.put(key("a"), answer(10))
    clock.time += after
    assert cache.get(key("a")) is None
    assert ttl_of(cache.get_stale(key("a"))) == (0 if is_found else None)
    assert cache.stale_hits == is_found
    assert cache.get_stale(key("b")) is None


@pytest.mark.parametrize(
    ("name", "is_negative", "is_kept"),
    [
        ("www.example.org", False, True),
        ("example.org", True, True),
        ("www.example.com", False, False),
        ("live.example.org", False, False),
        ("a.live.example.org", False, False),
        ("live.example.org", True, True),
        ("new.example.org", True, False),
        ("new.example.org", False, True),
    ],
)
def test_zones_whose_answers_are_kept(clock, name, is_negative, is_kept):
    uncached = (("success", "live.example.org"), ("denial", "new.example.org"))
    cache = cached(clock, zones=("example.org",), uncached=uncached)
    cache.put(key(name), answer(60, is_negative=is_negative))
    assert (len(cache) == 1) is is_kept


# --- The TTLs that clients see (CoreDNS: `cache [TTL]`, `success CAPACITY TTL MINTTL`) --------------------------------


@pytest.mark.parametrize(("sent", "seen"), [(1, 20), (20, 20), (50, 50), (3600, 300)])
@pytest.mark.parametrize("is_negative", [False, True])
def test_clients_see_ttls_within_the_limits_from_the_first_answer_on(clock, sent, seen, is_negative):
    cache = cached(clock, **{"negative_ttl" if is_negative else "ttl": TtlLimits(20, 300)})
    found = cache.limit(key("a"), answer(sent, is_negative=is_negative))
    assert (ttl_of(found.answer), found.ttl) == (seen, seen)
    cache.put(key("a"), found)
    clock.time += seen - 1
    assert ttl_of(cache.get(key("a"))) == 1
    clock.time += 1
    assert cache.get(key("a")) is None


def test_the_longest_ttl_wins(clock):
    cache = cached(clock, ttl=TtlLimits(60, 20))
    assert cache.limit(key("a"), answer(1)).ttl == 20


def test_ttls_outside_the_zones_of_the_cache_stay(clock):
    cache = cached(clock, zones=("example.org",), ttl=TtlLimits(20, 300))
    assert ttl_of(cache.limit(key("example.com"), answer(1)).answer) == 1
    assert ttl_of(cache.limit(key("example.org"), answer(1)).answer) == 20


def test_a_domain_may_have_settings_of_its_own(clock):
    cache = Cache(clock, CacheSettings(), [("corp.example", CacheSettings(ttl=TtlLimits(0, 7)))])
    assert cache.limit(key("a.corp.example"), answer(60)).ttl == 7
    assert cache.limit(key("corp.example"), answer(60)).ttl == 7
    assert cache.limit(key("xcorp.example"), answer(60)).ttl == 60


def test_ttls_can_be_kept(clock):
    cache = cached(clock, keeps_ttl=True)
    cache.put(key("a"), answer(10))
    clock.time += 9
    assert ttl_of(cache.get(key("a"))) == 10
    clock.time += 1
    assert cache.get(key("a")) is None


@pytest.mark.parametrize("rcode", [wire.SERVFAIL, wire.NOTIMP])
def test_failures_are_kept_for_the_duration_of_servfail(clock, rcode):
    cache = cached(clock, servfail_seconds=5)
    cache.put(key("a"), answer(0, rcode, is_negative=True))
    clock.time += 4.9
    assert cache.get(key("a")) is not None
    clock.time += 0.1
    assert cache.get(key("a")) is None
    assert cache.get_stale(key("a")) is None


def test_a_failure_does_not_replace_a_stale_answer(clock):
    cache = cached(clock, servfail_seconds=5, stale_seconds=60)
    cache.put(key("a"), answer(10))
    clock.time += 20
    cache.put(key("a"), answer(0, wire.SERVFAIL, is_negative=True))
    assert ttl_of(cache.get_stale(key("a"))) == 0
    clock.time += 60
    cache.put(key("a"), answer(0, wire.SERVFAIL, is_negative=True))
    assert cache.get(key("a")) is not None


@pytest.mark.parametrize(
    ("hits", "gap", "after", "is_due"), [(2, 1, 81, True), (2, 1, 79, False), (1, 1, 81, False), (2, 30, 81, False)]
)
def test_prefetching_can_be_configured(clock, hits, gap, after, is_due):
    cache = cached(clock, prefetch=Prefetch(2, gap_seconds=30, percentage=20))
    cache.put(key("a"), answer(100))
    end = clock.time + after
    for _ in range(hits):
        clock.time += gap
        cache.get(key("a"))
    clock.time = end
    assert cache.is_prefetch_due(key("a")) is is_due


def test_prefetching_can_be_switched_off(clock):
    cache = cached(clock, prefetch=Prefetch(0))
    cache.put(key("a"), answer(100))
    clock.time += 99
    cache.get(key("a"))
    assert not cache.is_prefetch_due(key("a"))


def test_the_size_limit_evicts_what_there_is_most_of(clock):
    probe = Cache(clock)
    probe.put(key("a"), answer(60))
    cache = Cache(clock, size=2 * probe.size)
    for name in ("a", "b", "c"):
        cache.put(key(name), answer(60, is_negative=True))
    assert (len(cache), cache.negative_evictions) == (2, 1)
