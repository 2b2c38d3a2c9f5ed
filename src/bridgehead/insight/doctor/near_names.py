"""Names and label values that differ by a typing error.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_SEPARATORS = re.compile(r"[-_.]")
_DIGITS = re.compile(r"\d")
_LONGEST = 253  # of a name or label; longer texts are not compared


class _Spelling(NamedTuple):
    """A text without its separators, in lower case. `letters`: without digits. `characters`: the different ones."""

    bare: str
    letters: str
    characters: frozenset[str]


@lru_cache(maxsize=8192)  # thousands of selectors are compared with the labels of one namespace
def _spelling(text: str) -> _Spelling:
    bare = _SEPARATORS.sub("", text).casefold()
    return _Spelling(bare, _DIGITS.sub("", bare), frozenset(bare))


def is_near(one: str, other: str) -> bool:
    """Whether two texts differ, but only by case, separators or at most two typing errors (one in a short text)."""
    if one == other or len(one) > _LONGEST or len(other) > _LONGEST:
        return False
    left, right = _spelling(one), _spelling(other)
    if left.bare == right.bare:
        return True
    shorter = min(len(left.bare), len(right.bare))
    # web-1 and web-2 are two names, and no typing error.
    if shorter < 3 or left.letters == right.letters or abs(len(left.bare) - len(right.bare)) > 2:
        return False
    most = 1 if shorter < 6 else 2
    # An error changes at most two characters.
    return len(left.characters ^ right.characters) <= 2 * most and _distance(left.bare, right.bare) <= most


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known text that differs least from `word` by a typing error; None without any."""
    near = [each for each in known if is_near(word, each)]
    if not near:
        return None
    bare = _spelling(word).bare
    return min(near, key=lambda each: (_distance(bare, _spelling(each).bare), each))


def _distance(one: str, other: str) -> int:
    """Return the number of insertions, deletions, replacements and swaps of neighbours; 3 stands for more than 2."""
    before: list[int] = []
    previous = list(range(len(other) + 1))
    for row, left in enumerate(one, 1):
        current = [row]
        for column, right in enumerate(other, 1):
            cost = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (left != right))
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        if min(current) > 2:
            return 3
        before, previous = previous, current
    return min(previous[-1], 3)
