"""Counters of queries and replies, as plain numbers. `serving/metrics.py` exposes them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from .messages.wire import HEADER_SIZE

# Upper bounds of CoreDNS' histograms (plugin/metrics): 0.25 ms doubled fifteen times, and sizes in bytes.
DURATION_BOUNDS = tuple(0.00025 * 2**n for n in range(16))
SIZE_BOUNDS = (0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16_000, 32_000, 48_000, 64_000)

Buckets = list[tuple[str, float]]  # upper bound as Prometheus writes it, and the number of values up to it


class Durations:
    """A histogram of durations in seconds."""

    def __init__(self) -> None:
        self._counts = [0] * (len(DURATION_BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        self._counts[bisect_left(DURATION_BOUNDS, seconds)] += times
        self.total += seconds * times

    def counts(self) -> Sequence[int]:
        """Return the number of values in each bucket, not cumulated; the last is above all bounds."""
        return self._counts


class Traffic:
    """Queries and replies of one protocol at one listening address.

    `queries` is indexed by the low byte of the query type (0: types above 255), `rcodes` by response code. The
    responder counts the queries that it answers at once, where counting costs least; the server counts the others.
    """

    def __init__(self) -> None:
        self.queries = [0] * 256
        self.rcodes = [0] * 16
        self.malformed = 0
        self.query_sizes: defaultdict[int, int] = defaultdict(int)
        self.reply_sizes: defaultdict[int, int] = defaultdict(int)
        self.durations = Durations()

    def add_query(self, data: bytes, reply: bytes | object | None) -> None:
        """Count a message and its reply. A reply that is not bytes will come later; None: none is sent."""
        if reply is None or (isinstance(reply, bytes) and not reply[5]):  # FORMERR, without a question
            self.malformed += 1
        else:
            end = data.find(b"\0", HEADER_SIZE)
            self.queries[0 if data[end + 1] else data[end + 2]] += 1
        if isinstance(reply, bytes):
            self.rcodes[reply[3] & 15] += 1

    def add_sizes(self, data: bytes, reply: bytes | None) -> None:
        self.query_sizes[len(data)] += 1
        if reply is not None:
            self.reply_sizes[len(reply)] += 1

    def add_deferred(self, data: bytes, reply: bytes, seconds: float) -> None:
        """Count the reply to a message that `add_query` has counted without one."""
        self.rcodes[reply[3] & 15] += 1
        self.add_sizes(data, reply)
        self.durations.add(seconds)

    @property
    def messages(self) -> int:
        return sum(self.query_sizes.values())


def cumulate(bounds: Sequence[float], counts: Iterable[int]) -> Buckets:
    """Return cumulated buckets, as Prometheus has them. There is one count more than bounds."""
    return list(zip([*map(str, map(float, bounds)), "+Inf"], map(float, accumulate(counts)), strict=True))


def count_sizes(sizes: Mapping[int, int]) -> list[int]:
    """Return the number of values in each bucket of `SIZE_BOUNDS`, from a mapping of size to number of values."""
    counts = [0] * (len(SIZE_BOUNDS) + 1)
    for size, times in sizes.items():
        counts[bisect_left(SIZE_BOUNDS, size)] += times
    return counts
