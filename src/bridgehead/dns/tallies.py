"""What every query counts, as plain numbers: `server.py` and `upstream.py` fill them, `metrics.py` shows them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from .wire import HEADER_SIZE

# CoreDNS's own (plugin/pkg/.../metrics): 0.25 ms doubled fifteen times, and sizes in bytes.
DURATION_BOUNDS = tuple(0.00025 * 2**n for n in range(16))
SIZE_BOUNDS = (0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16_000, 32_000, 48_000, 64_000)

Buckets = list[tuple[str, float]]  # upper bound in Prometheus' words, and how many values are not above it


class Durations:
    """Seconds, counted as they come."""

    def __init__(self) -> None:
        self._counts = [0] * (len(DURATION_BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        self._counts[bisect_left(DURATION_BOUNDS, seconds)] += times
        self.total += seconds * times

    def counts(self) -> Sequence[int]:
        """For each bound how many values lie between it and the one below; then those above all."""
        return self._counts


class Traffic:
    """What one protocol brought to one address, and what it got: by the low byte of a query's type (0 is any that has
    two), by the reply's code, and by size; and what was no query.

    `responder.py` counts what it can say at once, which costs least there; `server.py` the rest.
    """

    def __init__(self) -> None:
        self.queries = [0] * 256
        self.rcodes = [0] * 16
        self.malformed = 0
        self.query_sizes: defaultdict[int, int] = defaultdict(int)
        self.reply_sizes: defaultdict[int, int] = defaultdict(int)
        self.durations = Durations()

    def add_query(self, data: bytes, reply: bytes | object | None) -> None:
        """One message and its reply, be it one that is still to come; None: it gets none."""
        if reply is None or (isinstance(reply, bytes) and not reply[5]):  # no question comes back: none could be read
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

    def add_late(self, data: bytes, reply: bytes, seconds: float) -> None:
        """What is there now of a reply that was still to come."""
        self.rcodes[reply[3] & 15] += 1
        self.add_sizes(data, reply)
        self.durations.add(seconds)

    @property
    def messages(self) -> int:
        return sum(self.query_sizes.values())


def cumulate(bounds: Sequence[float], counts: Iterable[int]) -> Buckets:
    """Counts of single buckets, one more than there are bounds, as Prometheus wants them."""
    return list(zip([*map(str, map(float, bounds)), "+Inf"], map(float, accumulate(counts)), strict=True))


def count_sizes(sizes: Mapping[int, int]) -> list[int]:
    """How many of the sizes, each of which came so many times, are in each bucket of `SIZE_BOUNDS`."""
    counts = [0] * (len(SIZE_BOUNDS) + 1)
    for size, times in sizes.items():
        counts[bisect_left(SIZE_BOUNDS, size)] += times
    return counts
