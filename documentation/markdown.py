"""GitHub's Markdown in the form that Python's Markdown reads alike.

The pages are written for GitHub. There, the content of a list's item begins where its text does; here, after four
spaces for each level. There, a list may follow a line of text; here, it needs an empty line before it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re

_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])( {1,4})(?=\S)")
_FENCE = re.compile(r" *(```+|~~~+)")
_LEVEL = 4


def for_python_markdown(text: str) -> str:
    """Return the text with all content of lists indented by four spaces for each level."""
    lines: list[str] = []
    columns: list[int] = []  # where the contents of the open items begin
    begins_with_item = True  # the block of lines without an empty one
    fence = ""
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip():
            lines.append("")
            continue
        is_first = not lines or not lines[-1]
        item = None if fence else _ITEM.match(line)
        if item is not None and indent < (columns[-1] if columns else 0) + _LEVEL:
            while columns and indent < columns[-1]:
                columns.pop()
            if not is_first and not begins_with_item:
                is_first = True
                lines.append("")
            lines.append(" " * _LEVEL * len(columns) + item[2] + " " + line[item.end() :])
            columns.append(item.end())
            begins_with_item = begins_with_item or is_first
            continue
        if is_first and not fence:  # a line right after text continues it, however it is indented
            begins_with_item = False
            while columns and indent < columns[-1]:
                columns.pop()
        cut = min(indent, columns[-1]) if columns else 0
        lines.append(" " * _LEVEL * len(columns) + line[cut:])
        if found := _FENCE.match(line):
            fence = "" if fence and found[1].startswith(fence) else fence or found[1]
    return "\n".join(lines)
