"""Texts for a terminal: wrapped at its width, where a Chinese character takes two columns; output of programs, bounded.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from bridgehead.insight.findings import printable

MOST_LINES = 60  # of a command's output
MOST_COLUMNS = 240

_NOT_FIRST = frozenset("，。；：、！？）》」』”’…,.;:!?)")  # in a line
_NOT_LAST = frozenset("（《「『“‘(")


def width_of(text: str) -> int:
    """Return the columns that a text takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def wrap(text: str, columns: int, indent: str = "") -> str:
    """Wrap each paragraph of a text, which is a line, with `indent` before every line of the result."""
    room = max(10, columns - width_of(indent))
    return "\n".join(f"{indent}{line}".rstrip() for paragraph in text.split("\n") for line in _lines(paragraph, room))


def _lines(paragraph: str, columns: int) -> Iterator[str]:
    line = ""
    for piece in _pieces(paragraph):
        if line and width_of(line) + width_of(piece.rstrip()) > columns:
            yield line.rstrip()
            line = ""
        line += piece
    yield line.rstrip()


def _pieces(paragraph: str) -> Iterator[str]:
    """Yield the pieces between which a line may end; a space belongs to the piece before it."""
    piece = ""
    for character in paragraph:
        if piece and _may_break(piece[-1], character):
            yield piece
            piece = ""
        piece += character
    if piece:
        yield piece


def _may_break(before: str, after: str) -> bool:
    if before == " ":
        return after != " "
    if after == " " or after in _NOT_FIRST or before in _NOT_LAST:
        return False
    return width_of(before) == 2 or width_of(after) == 2


def clip(output: str) -> list[str]:
    """Return the lines of a program's output as plain text, at most `MOST_LINES`, then the number of those left out."""
    lines = output.expandtabs().rstrip().splitlines()
    shown = [printable(line.rstrip(), MOST_COLUMNS) for line in lines[:MOST_LINES]]
    return [*shown, f"... (+{len(lines) - MOST_LINES})"] if len(lines) > MOST_LINES else shown
