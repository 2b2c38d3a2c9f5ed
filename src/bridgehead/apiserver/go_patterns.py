"""Regular expressions in RE2's syntax, as Go has them: no backtracking, so that no pattern and no text takes long.

Pure: no I/O, no clock, no randomness. Source: Go's regexp/syntax; https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20

# Go's texts of errors, by RE2's.
_GO_TEXTS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
# RE2's `\C` is a byte, which Go does not have. Texts between \Q and \E are literal.
_BYTE_CLASS = re.compile(r"(?s:\\Q.*?(?:\\E|\Z)|\\[^CQ]|[^\\])*+\\C")


class BadPattern(Exception):
    """A pattern that Go does not accept; the text is Go's."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern, with `search` and `finditer`. Raises BadPattern."""
    if r"\C" in pattern and _BYTE_CLASS.match(pattern):
        raise BadPattern(r"error parsing regexp: invalid escape sequence: `\C`")
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise BadPattern(_go_text(error)) from None


def _go_text(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    what, _, where = decoded.partition(": ")
    return f"error parsing regexp: {_GO_TEXTS.get(what, what)}: `{where}`"
