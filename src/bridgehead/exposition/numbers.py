"""Counts and histograms as plain numbers, and as families of the client library.

Pure: no I/O, no clock, no randomness.

The client library is imported when a page is made: it imports wsgiref, which keeps a copy of the environment, and every
process of the lab is a fork of one that has imported this module with the environment of the lab's user.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]


class Histogram:
    """Values by upper bounds. `counts` are those of each bucket alone, the last is unbounded."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Histograms:
    """Histograms with the same bounds, by the values of their labels."""

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name, self._text, self._labels, self._bounds = name, text, labels, bounds
        self._shown = (*(str(float(bound)) for bound in bounds), "+Inf")
        self._by_labels: dict[Labels, Histogram] = {}

    def of(self, labels: Labels) -> Histogram:
        """Return the histogram of these values."""
        found = self._by_labels.get(labels)
        if found is None:
            found = self._by_labels[labels] = Histogram(self._bounds)
        return found

    def family(self, more: Labels = ()) -> Metric:
        """Return the family. `more` are values of labels after those of each histogram."""
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, one in self._by_labels.items():
            buckets = list(zip(self._shown, accumulate(one.counts), strict=True))
            family.add_metric([*labels, *more], buckets, one.total)
        return family


def counter_family(name: str, text: str, labels: Sequence[str], counts: Mapping[Labels, float]) -> Metric:
    """Return the family of counts by the values of their labels.

    The client library adds `_total` to the names of counters. Counters that have none in Kubernetes are gauges here.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    is_total = name.endswith("_total")
    family = (
        CounterMetricFamily(name, text, labels=labels) if is_total else GaugeMetricFamily(name, text, labels=labels)
    )
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def gauge_family(name: str, text: str, labels: Sequence[str], values: Mapping[Labels, float]) -> Metric:
    """Return the family of values by those of their labels."""
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
