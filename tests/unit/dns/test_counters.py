"""Histograms without a library in the way of queries: dns/tallies.py."""

from __future__ import annotations

from bridgehead.dns.counters import DURATION_BOUNDS, SIZE_BOUNDS, Durations, count_sizes, cumulate


def test_a_value_equal_to_a_bound_is_in_its_bucket() -> None:
    durations = Durations()
    durations.add(0.00025)
    durations.add(0.0003, 2)
    durations.add(100.0)

    buckets = cumulate(DURATION_BOUNDS, durations.counts())

    assert buckets[:3] == [("0.00025", 1.0), ("0.0005", 3.0), ("0.001", 3.0)]
    assert buckets[-2:] == [("8.192", 3.0), ("+Inf", 4.0)]
    assert durations.total == 0.00025 + 0.0006 + 100


def test_message_sizes_have_buckets() -> None:
    buckets = dict(cumulate(SIZE_BOUNDS, count_sizes({33: 5, 100: 1, 511: 2, 512: 1, 65_000: 3})))

    assert buckets["0.0"] == 0
    assert (buckets["100.0"], buckets["511.0"], buckets["1023.0"], buckets["64000.0"]) == (6, 8, 9, 9)
    assert buckets["+Inf"] == 12
