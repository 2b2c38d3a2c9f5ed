"""Histograms of what every query counts, as plain numbers: `server.py` fills them, `metrics.py` shows them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

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


def cumulate(bounds: Sequence[float], counts: Iterable[int]) -> Buckets:
    """Counts of single buckets, one more than there are bounds, as Prometheus wants them."""
    return list(zip([*map(str, map(float, bounds)), "+Inf"], map(float, accumulate(counts)), strict=True))


def count_sizes(sizes: Mapping[int, int]) -> list[int]:
    """How many of the sizes, each of which came so many times, are in each bucket of `SIZE_BOUNDS`."""
    counts = [0] * (len(SIZE_BOUNDS) + 1)
    for size, times in sizes.items():
        counts[bisect_left(SIZE_BOUNDS, size)] += times
    return counts
