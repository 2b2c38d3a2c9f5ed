"""Tables on standard output. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def columns(rows: Sequence[Row]) -> str:
    """Render a table: columns as wide as their widest cell, never truncated, so that `awk` can read them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)
