"""Sets of completion indexes as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.indexes import (
    common_intervals,
    count_indexes,
    first_common_index,
    format_intervals,
    known_indexes,
    known_intervals,
    merge_intervals,
    missing_intervals,
    parse_intervals,
)


def indexes_of(intervals):
    return {index for low, high in intervals for index in range(low, high + 1)}


def format_indexes(indexes):
    return format_intervals(merge_intervals((index, index) for index in indexes))


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", set()), ("0", {0}), ("1,2", {1, 2}), ("1-3,5", {1, 2, 3, 5}), ("0,7-9", {0, 7, 8, 9})],
)
def test_texts(text, indexes):
    intervals = parse_intervals(text, 10)
    assert (indexes_of(intervals), count_indexes(intervals)) == (indexes, len(indexes))
    assert format_indexes(indexes) == text


@pytest.mark.parametrize("text", ["a", "1,", "-1", "3-1", "2,1", "1,1", "9-10", "10", "1-1", "1--2", "+1"])
def test_invalid_texts(text):
    with pytest.raises(ValueError, match=r"index|order"):
        parse_intervals(text, 10)
    known_indexes(text, 10)  # a status may contain anything
    known_intervals(text, 10)


@given(st.frozensets(st.integers(0, 99)))
def test_a_text_has_the_same_indexes(indexes):
    text = format_indexes(indexes)
    assert indexes_of(parse_intervals(text, 100)) == indexes == indexes_of(known_indexes(text, 100))
    assert known_intervals(text, 100) == parse_intervals(text, 100)


def test_a_huge_interval_is_counted_without_its_indexes():
    assert count_indexes(parse_intervals("0-2147483646", 2**31 - 1)) == 2**31 - 1


@given(st.frozensets(st.integers(0, 30)), st.frozensets(st.integers(0, 30)))
def test_sets_have_a_first_common_index(some, others):
    intervals = [parse_intervals(format_indexes(indexes), 31) for indexes in (some, others)]
    assert first_common_index(*intervals) == min(some & others, default=None)
    some, others = intervals
    assert indexes_of(common_intervals(some, others)) == indexes_of(some) & indexes_of(others)
    assert indexes_of(missing_intervals(some, 20)) == set(range(20)) - indexes_of(some)


def test_a_status_may_claim_all_indexes_in_any_order():
    assert known_indexes("0-2147483646,5,0-9,x", 2**31 - 1) == [(0, 2**31 - 2)]
    assert known_indexes("7,0-3,2-12", 10) == [(0, 9)]
    assert missing_intervals([(1, 2**31 - 2)], 2**31) == [(0, 0), (2**31 - 1, 2**31 - 1)]
