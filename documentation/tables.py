"""Tables and texts in Markdown.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; `|` in its cells is escaped, and line breaks are spaces."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    return ", ".join(map(code, texts))


def escaped(text: str) -> str:
    """Return prose in which `<` and `*` stand for themselves; code spans stay as they are."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", r"\*") for part in parts)


def made_by(module: str) -> str:
    """Return the line below a page's title that names its source."""
    return f"<!-- Made of the code by documentation/{module}.py: `.venv/bin/python -m documentation` writes it. -->\n\n"
