"""Suggestions for a misspelled word: the known word that it most resembles. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def most_similar(word: str, known: Iterable[str], *, ratio: float = 0.6) -> str | None:
    """Return the known word that is most similar, by at least difflib's `ratio`; case does not matter."""
    spellings = {each.lower(): each for each in known}
    similar = difflib.get_close_matches(word.lower(), spellings, n=1, cutoff=ratio)
    return spellings[similar[0]] if similar else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "iptables"?`, to be appended to an error, or "" when no known word is similar."""
    similar = most_similar(word, known)
    return f'; did you mean "{similar}"?' if similar is not None else ""
