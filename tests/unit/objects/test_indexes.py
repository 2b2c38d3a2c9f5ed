"""Sets of completion indexes as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.indexes import format_indexes, known_indexes, parse_indexes


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", set()), ("0", {0}), ("1,2", {1, 2}), ("1-3,5", {1, 2, 3, 5}), ("0,7-9", {0, 7, 8, 9})],
)
def test_texts(text, indexes):
    assert parse_indexes(text, 10) == indexes
    assert format_indexes(indexes) == text


@pytest.mark.parametrize("text", ["a", "1,", "-1", "3-1", "2,1", "1,1", "9-10", "10", "1-1", "1--2"])
def test_invalid_texts(text):
    with pytest.raises(ValueError, match=r"index|order"):
        parse_indexes(text, 10)
    known_indexes(text, 10)  # a status may contain anything


@given(st.frozensets(st.integers(0, 99)))
def test_a_text_has_the_same_indexes(indexes):
    assert parse_indexes(format_indexes(indexes), 100) == indexes == known_indexes(format_indexes(indexes), 100)
