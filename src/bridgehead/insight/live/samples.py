"""Metrics pages in Prometheus' text format: the few counts and histograms that rows show, summed over their series.

A page of a large API server has tens of thousands of lines, and is read every few seconds: lines of other metrics are
skipped by their names, and the labels of a series are parsed only when it is new.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bridgehead.insight.findings import printable

Labels = Mapping[str, str]
Group = Callable[[Labels], str | None]

MOST_SERIES = 50_000  # that are remembered, and read, of one page
_LONGEST_GROUP = 32

_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb'\\(["\\n])')


class Rule(NamedTuple):
    """A metric to read. `group` returns the name under which a series is summed, None to skip it.

    Of a histogram, `name` is without `_bucket`.
    """

    name: str
    group: Group
    is_histogram: bool = False


class Reading(NamedTuple):
    """A metrics page, summed by metric and group.

    `at`: monotonic seconds. `buckets`: cumulative counts by upper bound.
    """

    at: float
    values: Mapping[tuple[str, str], float]
    buckets: Mapping[tuple[str, str], Mapping[float, float]]

    def groups(self, name: str) -> list[str]:
        """Return the groups of a metric, sorted."""
        found = (group for metric, group in (*self.values, *self.buckets) if metric == name)
        return sorted(set(found))


class _Slot(NamedTuple):
    key: tuple[str, str]
    bound: float | None  # of a bucket


class PageReader:
    """Reads the pages of one server after the other; it remembers the meaning of their series."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = {(f"{rule.name}_bucket" if rule.is_histogram else rule.name).encode(): rule for rule in rules}
        self._names = tuple(self._rules)
        self._slots: dict[bytes, _Slot | None] = {}

    def read(self, page: bytes, at: float) -> Reading:
        """Return the sums of a page; lines that are no samples are skipped. `at`: monotonic seconds."""
        values: dict[tuple[str, str], float] = {}
        buckets: dict[tuple[str, str], dict[float, float]] = {}
        if len(self._slots) > MOST_SERIES:
            self._slots.clear()
        count = 0
        for line in page.split(b"\n"):
            if not line.startswith(self._names):
                continue
            count += 1
            if count > MOST_SERIES:
                break
            end = line.rfind(b"}") + 1 or line.find(b" ")
            series = line[:end]
            try:
                slot = self._slots[series]
            except KeyError:
                slot = self._slots[series] = self._slot(series)
            if slot is None:
                continue
            try:
                value = float(line[end:].split(None, 1)[0])
            except (ValueError, IndexError):
                continue
            if not math.isfinite(value):
                continue
            if slot.bound is None:
                values[slot.key] = values.get(slot.key, 0.0) + value
            else:
                bounds = buckets.setdefault(slot.key, {})
                bounds[slot.bound] = bounds.get(slot.bound, 0.0) + value
        return Reading(at, values, buckets)

    def _slot(self, series: bytes) -> _Slot | None:
        name, _, rest = series.partition(b"{")
        rule = self._rules.get(name)
        if rule is None:  # another metric, whose name begins with that of a rule
            return None
        labels = {match[1].decode(): _text(match[2]) for match in _LABEL.finditer(rest)}
        group = rule.group(labels)
        if group is None:
            return None
        key = (rule.name, printable(group, _LONGEST_GROUP))
        if not rule.is_histogram:
            return _Slot(key, None)
        try:
            return _Slot(key, float(labels["le"]))
        except (KeyError, ValueError):
            return None


def _text(value: bytes) -> str:
    if b"\\" in value:
        value = _ESCAPE.sub(lambda match: b"\n" if match[1] == b"n" else match[1], value)
    return value.decode(errors="replace")


def increase(before: Reading, after: Reading, name: str, group: str = "") -> float | None:
    """Return by how much a counter has grown; from 0 if the process was restarted. None: it is not exported."""
    end = after.values.get((name, group))
    if end is None:
        return None
    begin = before.values.get((name, group), 0.0)
    return end - begin if end >= begin else end


def bucket_increase(before: Reading, after: Reading, name: str, group: str = "") -> dict[float, float] | None:
    """Return the observations in between, cumulative by upper bound. None: the histogram is not exported."""
    end = after.buckets.get((name, group))
    if end is None:
        return None
    begin = before.buckets.get((name, group), {})
    if any(count < begin.get(bound, 0.0) for bound, count in end.items()):
        return dict(end)  # the process was restarted
    return {bound: count - begin.get(bound, 0.0) for bound, count in end.items()}


def percentile(buckets: Mapping[float, float], share: float) -> float | None:
    """Return the value below which `share` (0 to 1) of the observations are, as Prometheus' histogram_quantile does.

    Values are taken as evenly spread in their bucket. Those above the highest finite bound count as this bound. None:
    there are no observations.
    """
    bounds = sorted(buckets)
    if not bounds or buckets[bounds[-1]] <= 0:
        return None
    rank = share * buckets[bounds[-1]]
    lower, below = 0.0, 0.0
    for bound in bounds:
        count = buckets[bound]
        if count >= rank and count > below:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * max(0.0, rank - below) / (count - below)
        if not math.isinf(bound):
            lower, below = bound, max(below, count)
    return lower
