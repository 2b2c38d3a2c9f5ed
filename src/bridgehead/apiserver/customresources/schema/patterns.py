"""Patterns of schemas, as predicates.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from bridgehead.apiserver import go_patterns


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return the predicate of texts that contain a match. Raises BadPattern."""
    search = go_patterns.compile_pattern(pattern).search
    # For a str, the package would also compute positions in characters, which takes three times as long.
    return lambda text: search(text.encode("utf-8", "surrogatepass")) is not None
