"""Widths of columns in a terminal, and texts of exactly one width.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

GAP = 2  # cells between two columns


class Wish(NamedTuple):
    """Width that a column wants, the least that makes sense, and its rank: columns of the highest rank go first.

    Rank 0: the column stays.
    """

    width: int
    least: int
    rank: int


def column_widths(wishes: Sequence[Wish], width: int) -> list[int]:
    """Return a width for each column, 0 for those that find no room in `width` cells."""
    shown = list(range(len(wishes)))

    def needed(widths: Sequence[int]) -> int:
        return sum(widths) + GAP * max(0, len(widths) - 1)

    while needed([min(wishes[i].width, wishes[i].least) for i in shown]) > width:
        dropped = max(shown, key=lambda i: (wishes[i].rank, i), default=None)
        if dropped is None or not wishes[dropped].rank:
            break
        shown.remove(dropped)
    found = {i: wishes[i].width for i in shown}
    while (excess := needed(list(found.values())) - width) > 0:
        # Columns of the highest rank are cut first; among equals in steps, so that none is cut much.
        give = {i: found[i] - wishes[i].least for i in shown if found[i] > wishes[i].least}
        if not give:
            break
        cut = max(give, key=lambda i: (wishes[i].rank, give[i], i))
        found[cut] -= min(excess, max(1, give[cut] // 4))
    return [found.get(i, 0) for i in range(len(wishes))]


def cell(text: str, width: int, *, right: bool = False) -> str:
    """Return the text in exactly `width` cells; a cut one ends in an ellipsis."""
    if text.isascii():  # nearly always: counting cells takes long
        if len(text) <= width:
            return text.rjust(width) if right else text.ljust(width)
        return f"{text[: width - 1]}…" if width > 0 else ""
    length = cell_len(text)
    if length <= width:
        return f"{' ' * (width - length)}{text}" if right else f"{text}{' ' * (width - length)}"
    return set_cell_size(f"{set_cell_size(text, width - 1)}…", width) if width > 0 else ""


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines of at most `width` cells, broken between names; later lines are indented as the first."""
    if text_width(text) <= width:
        return [text]
    if not text.isascii():
        return chop_cells(text, max(2, width))
    indent = text[: len(text) - len(text.lstrip())][: width // 2]
    return textwrap.wrap(text, max(1, width), subsequent_indent=indent, drop_whitespace=True) or [""]


def text_width(text: str) -> int:
    """Return the cells that a text takes."""
    return len(text) if text.isascii() else cell_len(text)
