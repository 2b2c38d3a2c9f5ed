"""Results of a benchmark: tables with a heading, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """A table. `note` describes the measurement in a sentence or two; every row has a cell for each column."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def lines(self) -> Iterator[str]:
        yield f"## {self.title}"
        yield ""
        if self.note:
            yield self.note
            yield ""
        for row in (self.columns, ["---"] * len(self.columns), *self.rows):
            yield f"| {' | '.join(row)} |"
        yield ""


def not_measured(reason: str) -> str:
    """A cell in the place of a figure."""
    return f"not measured: {' '.join(reason.split())}".replace("|", "/")
