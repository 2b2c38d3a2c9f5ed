"""Regular expressions in RE2's syntax, as Go has them: no backtracking, so that no pattern and no text takes long.

Pure: no I/O, no clock, no randomness. Source: Go's regexp/syntax; https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

# What Go calls an error, by RE2's words for it.
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


class BadPattern(Exception):
    """A pattern that RE2 does not accept; the text is Go's."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return the predicate of texts that contain a match. Raises BadPattern."""
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise BadPattern(_go_text(error, pattern)) from None
    search = compiled.search
    # For a str, the package would also compute positions in characters, which takes three times as long.
    return lambda text: search(text.encode("utf-8", "surrogatepass")) is not None


def _go_text(error: Exception, pattern: str) -> str:
    text = error.args[0] if error.args else ""
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    what, _, where = decoded.partition(": ")
    return f"error parsing regexp: {_GO_TEXTS.get(what, what)}: `{where}`"
