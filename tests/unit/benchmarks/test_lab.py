"""Processor time of a lab's processes."""

from __future__ import annotations

from benchmarks.lab import ticks_in


def test_the_time_of_ended_children_counts_whatever_the_name_of_the_process():
    stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 10 20 0 0 100 20 3 4 20 0 1 0 500 1000 200"
    assert ticks_in(stat) == 127
