"""The order in which a few backends have their turns."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.proxy.nftables.chains import MOST_TURNS, turns

COUNTS = range(2, MOST_TURNS + 1)


@pytest.mark.parametrize("count", COUNTS)
def test_each_backend_has_as_many_turns(count: int) -> None:
    assert Counter(turns(count, "node1")) == dict.fromkeys(range(count), len(turns(count, "node1")) // count)


@given(
    count=st.sampled_from(COUNTS),
    every=st.integers(1, 7),
    first=st.integers(0, 1000),
    times=st.integers(1, 300),
)
def test_a_few_turns_are_nearly_even_whoever_has_those_between(count: int, every: int, first: int, times: int) -> None:
    """Plain turns would give a client of two Services with two backends each always the same one of each."""
    order = turns(count, "node1")

    met = Counter(order[(first + every * time) % len(order)] for time in range(times))

    assert all(abs(met[number] - times / count) < 13 for number in range(count))


def test_nodes_begin_at_different_places() -> None:
    first = Counter(turns(3, f"node{number}")[0] for number in range(300))

    assert all(70 <= first[number] <= 130 for number in range(3))
