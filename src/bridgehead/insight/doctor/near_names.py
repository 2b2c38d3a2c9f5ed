"""Names and label values that differ by a typing error.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SEPARATORS = re.compile(r"[-_.]")
_LONGEST = 253  # of a name or label; longer texts are not compared


def is_near(one: str, other: str) -> bool:
    """Whether two texts differ, but only by case, separators or at most two typing errors (one in a short text)."""
    if one == other or len(one) > _LONGEST or len(other) > _LONGEST:
        return False
    bare, other_bare = _bare(one), _bare(other)
    if bare == other_bare:
        return True
    shorter = min(len(bare), len(other_bare))
    if shorter < 3 or not _are_letters(bare, other_bare):
        return False
    return _distance(bare, other_bare) <= (1 if shorter < 6 else 2)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known text that differs least from `word` by a typing error; None without any."""
    near = [each for each in known if is_near(word, each)]
    return min(near, key=lambda each: (_distance(_bare(word), _bare(each)), each), default=None)


def _bare(text: str) -> str:
    return _SEPARATORS.sub("", text).casefold()


def _are_letters(one: str, other: str) -> bool:
    """Whether texts differ in more than their digits: web-1 and web-2 are two names, not a typing error."""
    return re.sub(r"\d", "", one) != re.sub(r"\d", "", other)


def _distance(one: str, other: str) -> int:
    """Return the number of insertions, deletions, replacements and swaps of neighbours; 3 stands for more than 2."""
    if abs(len(one) - len(other)) > 2:
        return 3
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
