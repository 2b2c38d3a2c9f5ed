"""The widget of one line, and the styles of its pieces."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from bridgehead.insight.findings import printable

BOLD, DIM, BAD, PLAIN = Style(bold=True), Style(dim=True), Style(color="red", bold=True), Style()
WARNING, KEY, CURSOR = Style(color="magenta"), Style(color="blue", bold=True), Style(reverse=True)

Piece = tuple[str, Style]


class Line(Widget):
    """One line, of pieces with styles, that is cut at the right end. Control characters are replaced."""

    DEFAULT_CSS = "Line { height: 1; width: 1fr; }"

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._pieces: list[Piece] = []

    def show(self, *pieces: Piece) -> None:
        found = [(printable(text), style) for text, style in pieces]
        if found != self._pieces:
            self._pieces = found
            self.refresh()

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self._pieces)

    def render_line(self, y: int) -> Strip:
        strip = Strip([Segment(text, style) for text, style in self._pieces])
        return strip.adjust_cell_length(self.size.width)
