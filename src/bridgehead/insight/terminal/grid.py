"""The widget of a table: a head, and those rows that fit; only these are drawn, whatever the number of rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from bridgehead.insight.live.rows import Row

from .layout import GAP, Wish, cell, column_widths, text_width
from .listing import Listing
from .tables import Column, Tone

FLASH_SECONDS = 1.5  # for which a changed row is marked
_MARK = "•"

# Colours of the terminal's own palette: readable on a dark and on a light background, with the text's own meaning in a
# column beside.
_STYLES = {
    Tone.PLAIN: Style(),
    Tone.BAD: Style(color="red", bold=True),
    Tone.WARNING: Style(color="magenta"),
    Tone.FAINT: Style(dim=True),
}
_HEAD = Style(bold=True, underline=True)
_CURSOR = Style(reverse=True)
_MARK_STYLE = Style(color="blue", bold=True)
_EMPTY = Style(dim=True)


class Grid(Widget):
    """Shows a `Listing`. The row under the cursor is kept by its key while rows move."""

    DEFAULT_CSS = "Grid { height: 1fr; width: 1fr; }"

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._listing: Listing | None = None
        self._rows: Mapping[str, Row] = {}
        self._cursor = 0
        self._top = 0
        self._key: str | None = None  # of the row under the cursor
        self._widths: dict[str, int] = {}  # by title: they grow only, so that columns do not jump
        self._layout: tuple[tuple[Column, ...], list[int]] = ((), [])
        self._changed: dict[str, float] = {}  # key -> until when it is marked, in epoch seconds

    def show(self, listing: Listing, rows: Mapping[str, Row]) -> None:
        """Draw a listing, of which `keys` or `rows` may have changed."""
        if listing is not self._listing:
            self._listing = listing
            self._widths.clear()
            self._changed.clear()
            self._cursor = self._top = 0
            self._key = None
        self._rows = rows
        self._follow_key()
        self.refresh()

    def mark(self, keys: Sequence[str]) -> None:
        """Mark rows as changed for FLASH_SECONDS."""
        until = self._clock() + FLASH_SECONDS
        for key in keys:
            self._changed[key] = until

    @property
    def key(self) -> str | None:
        """Key of the row under the cursor."""
        keys = self._listing.keys if self._listing is not None else []
        return keys[self._cursor] if self._cursor < len(keys) else None

    @property
    def row(self) -> Row | None:
        return self._rows.get(self.key or "")

    def select(self, key: str | None) -> None:
        """Move the cursor to a row, if it is there."""
        self._key = key
        self._follow_key()
        self.refresh()

    def _follow_key(self) -> None:
        keys = self._listing.keys if self._listing is not None else []
        if self._key is not None and not (self._cursor < len(keys) and keys[self._cursor] == self._key):
            try:
                self._cursor = keys.index(self._key)
            except ValueError:
                self._key = None
        self._set_cursor(self._cursor)

    def _set_cursor(self, cursor: int) -> None:
        keys = self._listing.keys if self._listing is not None else []
        self._cursor = max(0, min(cursor, len(keys) - 1))
        if cursor > 0 or self._key is not None:  # at the top, the cursor stays there while rows move
            self._key = keys[self._cursor] if keys else None
        height = max(1, self.size.height - 1)
        self._top = max(0, min(self._top, self._cursor, max(0, len(keys) - height)))
        self._top = max(self._top, self._cursor - height + 1)

    # Called by keys of the application

    def move_by(self, by: int) -> None:
        self._key = None
        self._set_cursor(self._cursor + by)
        self.refresh()

    def page_by(self, by: int) -> None:
        self.move_by(by * max(1, self.size.height - 2))

    def move_to_edge(self, end: int) -> None:
        self.move_by(len(self._listing.keys) if end and self._listing is not None else -self._cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.move_by(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.move_by(-3)

    def on_click(self, event: events.Click) -> None:
        if event.y > 0:
            self.move_by(self._top + event.y - 1 - self._cursor)

    def on_resize(self, event: events.Resize) -> None:
        self._follow_key()

    def render_lines(self, crop):  # type: ignore[no-untyped-def]  # of Textual's own types
        """Lay the columns out once for all lines of a drawing."""
        self._lay_out()
        return super().render_lines(crop)

    def _lay_out(self) -> None:
        listing = self._listing
        if listing is None:
            return
        now = self._clock()
        columns = listing.columns
        visible = [self._rows.get(key) for key in listing.keys[self._top : self._top + self.size.height]]
        for column in columns:
            width = max(self._widths.get(column.title, 0), len(column.title) + (column is listing.column))
            for row in visible:
                if row is not None:
                    width = max(width, text_width(column.text(row, now)))
            self._widths[column.title] = width
        wishes = [
            # A number is never cut.
            Wish(self._widths[each.title], max(each.least, len(each.title)) if each.right else each.least, each.rank)
            for each in columns
        ]
        self._layout = (columns, column_widths(wishes, self.size.width - 2))
        for key in [key for key, until in self._changed.items() if until <= now]:
            del self._changed[key]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        listing = self._listing
        if listing is None:
            return Strip.blank(width)
        if y == 0:
            return self._head(listing)
        index = self._top + y - 1
        if index >= len(listing.keys):
            if index == 0:
                text = "nothing passes the filter" if listing.total else "none"
                return Strip([Segment(cell(f"  {text}", width), _EMPTY)], width)
            return Strip.blank(width)
        key = listing.keys[index]
        row = self._rows.get(key)
        if row is None:
            return Strip.blank(width)
        now = self._clock()
        columns, widths = self._layout
        texts = [
            cell(column.text(row, now), size, right=column.right)
            for column, size in zip(columns, widths, strict=True)
            if size
        ]
        text = cell((" " * GAP).join(texts), width - 2)
        style = _STYLES[listing.view.tone(row)]
        mark = _MARK if key in self._changed else " "
        if index == self._cursor:
            return Strip([Segment(f"{mark} {text}", style + _CURSOR)], width)
        return Strip([Segment(f"{mark} ", _MARK_STYLE), Segment(text, style)], width)

    def _head(self, listing: Listing) -> Strip:
        columns, widths = self._layout
        texts = []
        for column, size in zip(columns, widths, strict=True):
            if size:
                arrow = ("↓" if listing.is_reversed else "↑") if column is listing.column else ""
                texts.append(cell(f"{column.title}{arrow}", size, right=column.right))
        text = cell((" " * GAP).join(texts), self.size.width - 2)
        return Strip([Segment("  "), Segment(text, _HEAD)], self.size.width)
