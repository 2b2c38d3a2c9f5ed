"""The rows of a table as they are shown: filtered, sorted, limited to a namespace or to a drill-down.

Pure: no I/O, no clock, no randomness. Times are arguments, in epoch seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bridgehead.insight.live.rows import Row
from bridgehead.insight.live.updates import Op, Table, Update

from .tables import Column, View

_LONGEST_FILTER = 200


class Store:
    """The rows of all tables that updates have brought, by key."""

    def __init__(self) -> None:
        self.tables: dict[Table, dict[str, Row]] = {table: {} for table in Table}

    def apply(self, update: Update) -> dict[Table, dict[str, tuple[Row | None, Row | None]]]:
        """Take an update. Returns (before, after) by key; a snapshot changes every row of its tables."""
        found: dict[Table, dict[str, tuple[Row | None, Row | None]]] = {}
        for table, rows in update.rows.items():
            before, after = self.tables[table], {row.key: row for row in rows}
            self.tables[table] = after
            found[table] = {key: (before.get(key), after.get(key)) for key in before.keys() | after.keys()}
        for change in update.changes:
            rows_of = self.tables[change.table]
            old = rows_of.pop(change.key, None) if change.op is Op.REMOVED else rows_of.get(change.key)
            if change.row is not None:
                rows_of[change.key] = change.row
            found.setdefault(change.table, {})[change.key] = (old, change.row)
        return found


class Listing:
    """The part of one table that is shown. `keys` is in order; the rows are looked up when they are drawn.

    `scope` returns the keys of a drill-down; None: there is none.
    """

    def __init__(self, view: View, scope: Callable[[], Collection[str]] | None = None) -> None:
        self.view = view
        self.scope = scope
        self.sort = view.sort
        self.is_reversed = view.columns[view.sort].is_descending
        self.filter = ""
        self.namespace = ""
        self.keys: list[str] = []
        self.total = 0  # without the filter
        self._texts: dict[str, tuple[Row, str]] = {}
        self._matches = compile_filter("")

    @property
    def column(self) -> Column:
        return self.view.columns[self.sort]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns; one namespace needs no column of its name."""
        if self.namespace and self.view.is_namespaced:
            return tuple(each for each in self.view.columns if each.title != "NAMESPACE")
        return self.view.columns

    def set_filter(self, text: str) -> None:
        self.filter = text
        self._matches = compile_filter(text)
        if not text:
            self._texts.clear()

    def sort_by(self, letter: str) -> bool:
        """Sort by the column with this letter, or reverse if it is the one already. False: there is none."""
        for index, column in enumerate(self.view.columns):
            if letter and column.letter == letter:
                self.is_reversed = not self.is_reversed if index == self.sort else column.is_descending
                self.sort = index
                return True
        return False

    def update(self, rows: Mapping[str, Row], now: float) -> None:
        """Compute `keys` from all rows of the table."""
        found: list[Row] = []
        if self.scope is not None:
            found = [row for key in self.scope() if (row := rows.get(key)) is not None]
        else:
            found = list(rows.values())
        if self.namespace and self.view.is_namespaced:
            found = [row for row in found if getattr(row, "namespace", "") == self.namespace]
        self.total = len(found)
        if self.filter:
            found = [row for row in found if self._matches(self._text(row, now))]
        order = self.column.order
        found.sort(key=lambda row: row.key)
        if self.sort != 0 or not self.view.is_namespaced or self.view.columns[0].is_age:
            found.sort(key=order, reverse=self.is_reversed)
        elif self.is_reversed:
            found.reverse()
        self.keys = [row.key for row in found]

    def needs_update(self, changes: Mapping[str, tuple[Row | None, Row | None]]) -> bool:
        """Return whether these changes may change `keys`: most change a cell by which nothing is sorted."""
        if self.filter or self.scope is not None:
            return bool(changes)
        order = self.column.order
        return any(old is None or new is None or order(old) != order(new) for old, new in changes.values())

    def _text(self, row: Row, now: float) -> str:
        """Return all cells of a row, except for ages, for the filter; remembered as long as the row is the same one."""
        known = self._texts.get(row.key)
        if known is not None and known[0] is row:
            return known[1]
        text = " ".join(each.text(row, now) for each in self.view.columns if not each.is_age)
        self._texts[row.key] = (row, text)
        return text


def compile_filter(text: str) -> Callable[[str], Any]:
    """Return the function that decides whether a text passes the filter.

    A regular expression without regard to case, or a plain text if it is not one. `!` in front: texts without it.
    """
    text = text[:_LONGEST_FILTER]
    is_inverse = text.startswith("!")
    pattern = text[1:] if is_inverse else text
    if not pattern:
        return lambda text: True
    if re.escape(pattern) == pattern or not _is_simple(pattern):
        needle = pattern.lower()
        if is_inverse:
            return lambda text: needle not in text.lower()
        return lambda text: needle in text.lower()
    search = re.compile(pattern, re.IGNORECASE).search
    return (lambda text: search(text) is None) if is_inverse else search


def _is_simple(pattern: str) -> bool:
    """Return whether a pattern is a regular expression that cannot take long: few repetitions, none of a group."""
    if len(re.findall(r"[*+?{]", pattern)) > 2 or re.search(r"\)[*+?{]", pattern):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
