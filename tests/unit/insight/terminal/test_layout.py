"""Widths of columns and cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.terminal.layout import GAP, Wish, cell, column_widths, text_width, wrapped


@pytest.mark.parametrize(
    ("text", "width", "right", "found"),
    [
        ("abc", 5, False, "abc  "),
        ("abc", 5, True, "  abc"),
        ("abcdef", 4, False, "abc…"),
        ("abc", 0, False, ""),
        ("名前です", 5, False, "名前…"),
        ("名前", 6, True, "  名前"),
    ],
)
def test_cell(text: str, width: int, right: bool, found: str):
    assert cell(text, width, right=right) == found


@given(st.text(max_size=30), st.integers(0, 20), st.booleans())
def test_a_cell_has_its_width(text: str, width: int, right: bool):
    shown = "".join(filter(str.isprintable, text))
    assert text_width(cell(shown, width, right=right)) == width


def test_columns_that_fit_keep_their_width():
    assert column_widths([Wish(10, 5, 0), Wish(20, 5, 1)], 40) == [10, 20]


def test_columns_of_a_high_rank_are_cut_first_then_dropped():
    wishes = [Wish(20, 10, 0), Wish(20, 10, 1), Wish(20, 10, 2)]
    assert column_widths(wishes, 60) == [20, 20, 16]
    assert column_widths(wishes, 40) == [16, 10, 10]
    assert column_widths(wishes, 30) == [18, 10, 0]
    assert column_widths(wishes, 15) == [15, 0, 0]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 20), st.integers(0, 5)), max_size=9), st.integers(0, 200))
def test_columns_fit_unless_those_that_stay_do_not(wishes: list[tuple[int, int, int]], width: int):
    found = column_widths([Wish(*each) for each in wishes], width)
    shown = [size for size in found if size]
    total = sum(shown) + GAP * max(0, len(shown) - 1)
    stay = [min(wish[0], wish[1]) for wish in wishes if not wish[2]]
    least = sum(stay) + GAP * max(0, len(stay) - 1)
    assert total <= max(width, least)
    assert all(found[i] for i, wish in enumerate(wishes) if not wish[2])


def test_wrapped_lines_are_indented_as_the_first():
    assert wrapped("  one two three", 9) == ["  one two", "  three"]
    assert wrapped("short", 9) == ["short"]
    assert wrapped("名前名前", 4) == ["名前", "名前"]


@given(st.text(max_size=60).map(lambda text: "".join(filter(str.isprintable, text))), st.integers(2, 20))
def test_wrapped_lines_fit(text: str, width: int):
    assert all(text_width(line) <= width for line in wrapped(text, width))
