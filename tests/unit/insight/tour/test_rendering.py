"""Texts wrapped for a terminal, in English and in Chinese; bounded output of programs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.tour.rendering import MOST_COLUMNS, MOST_LINES, clip, width_of, wrap


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("one two three", 100, ["one two three"]),
        ("averylongwordindeed x", 10, ["averylongwordindeed", "x"]),
        ("端点是桥尾，服务是桥头。", 12, ["端点是桥尾，", "服务是桥头。"]),
        ("一个节点上有服务，", 16, ["一个节点上有服", "务，"]),
        ("用 kubectl get services 查看", 14, ["用 kubectl get", "services 查看"]),
        ("（甲）乙", 10, ["（甲）乙"]),
        ("first\nsecond", 80, ["first", "second"]),
        ("", 80, [""]),
    ],
)
def test_lines_end_at_spaces_and_between_chinese_characters(text, columns, lines):
    assert wrap(text, columns).split("\n") == lines


def test_an_indent_is_part_of_the_width():
    assert wrap("one two three four", 12, "  ").split("\n") == ["  one two", "  three four"]


@given(st.text("甲乙丙，。（）ab c", max_size=200), st.integers(12, 100))
def test_no_character_is_lost_and_no_line_begins_with_a_closing_mark(text, columns):
    lines = wrap(text, columns).split("\n")
    assert "".join("".join(lines).split()) == "".join(text.split())
    for line, following in itertools.pairwise(lines):
        assert not following.startswith(("，", "。", "）")) or line.endswith(" ") or not line


def test_a_chinese_character_takes_two_columns():
    assert width_of("服务web") == 7


def test_output_is_plain_and_bounded():
    assert clip("a\tb\n\n") == ["a       b"]
    assert clip("\033[31mred\u202e") == ["?[31mred?"]
    lines = clip("\n".join(map(str, range(MOST_LINES + 5))))
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "... (+5)"
    assert len(clip("x" * 10_000)[0]) == MOST_COLUMNS
