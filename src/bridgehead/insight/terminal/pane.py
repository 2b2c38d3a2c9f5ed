"""The widget of a long text: a description, YAML, a log, the output of a command."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from .layout import cell, wrapped
from .listing import compile_filter
from .texts import MOST_LINES

_KEY = Style(bold=True)


class TextPane(Widget):
    """Lines that are safe for a terminal; only the visible ones are drawn. A pane at its end follows new lines."""

    DEFAULT_CSS = "TextPane { height: 1fr; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._shown: list[str] = []
        self._top = self._left = 0
        self._is_growing = False  # a log
        self._is_wrapped = False
        self._follows = False
        self.filter = ""
        self._matches = compile_filter("")

    @property
    def lines(self) -> list[str]:
        return list(self._lines)

    def show(self, lines: Iterable[str], *, follows: bool = False, wraps: bool = False) -> None:
        """Show other lines. `follows`: begin at the end, and stay there while lines are added. `wraps`: long lines."""
        self._is_wrapped = wraps
        self._lines.clear()
        self._lines.extend(lines)
        self._top = self._left = 0
        self._is_growing = self._follows = follows
        self.set_filter("")

    def append(self, lines: Iterable[str]) -> None:
        """Add lines at the end; the oldest ones are dropped beyond MOST_LINES."""
        self._lines.extend(lines)
        self._select()

    def set_filter(self, text: str) -> None:
        self.filter = text
        self._matches = compile_filter(text)
        self._select()

    def _select(self) -> None:
        self._shown = [line for line in self._lines if self._matches(line)] if self.filter else list(self._lines)
        if self._is_wrapped and self.size.width:
            self._shown = [part for line in self._shown for part in wrapped(line, self.size.width - 1)]
        self._move_to(self._last if self._follows else self._top)

    @property
    def _last(self) -> int:
        return max(0, len(self._shown) - self.size.height)

    def _move_to(self, top: int) -> None:
        self._top = max(0, min(top, self._last))
        self.refresh()

    def move_by(self, by: int) -> None:
        self._move_to(self._top + by)
        self._follows = self._is_growing and self._top == self._last

    def page_by(self, by: int) -> None:
        self.move_by(by * max(1, self.size.height - 1))

    def move_to_edge(self, end: int) -> None:
        self._move_to(self._last if end else 0)
        self._follows = self._is_growing and bool(end)

    def toggle_wrap(self) -> None:
        self._is_wrapped = not self._is_wrapped
        self._left = 0
        self._select()

    def shift_by(self, by: int) -> None:
        longest = max(map(len, self._shown[self._top : self._top + self.size.height]), default=0)
        self._left = max(0, min(self._left + by * self.size.width // 2, longest - 1))
        self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move_by(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move_by(-3)

    def on_resize(self, event: events.Resize) -> None:
        self._select()

    def render_line(self, y: int) -> Strip:
        width, index = self.size.width, self._top + y
        if index >= len(self._shown):
            return Strip.blank(width)
        line = self._shown[index]
        text = cell(f" {line[self._left :]}", width)
        head, colon, _ = line.partition(":")
        if colon and not self._left and len(head) < 40 and head.strip().replace(" ", "").isalnum():
            size = len(head) + 2
            return Strip([Segment(text[:size], _KEY), Segment(text[size:])], width)
        return Strip([Segment(text)], width)
