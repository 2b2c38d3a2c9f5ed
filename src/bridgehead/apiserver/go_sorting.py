"""Go's stable sort, for comparisons that are not orders: its result then depends on the comparisons that it makes.

Pure: no I/O, no clock, no randomness. Source: Go's package sort (SliceStable): insertion sort of blocks, which SymMerge
(P. Kim and A. Kutzner, 2004) merges in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

_BLOCK = 20  # elements

Less = Callable[[Any, Any], bool]


def sort_stably(items: Iterable[Any], is_less: Less) -> list[Any]:
    """Return the items as Go's sort.SliceStable leaves them."""
    data = list(items)
    for start in range(0, len(data), _BLOCK):
        for end in range(start + 1, min(start + _BLOCK, len(data))):
            position = end
            while position > start and is_less(data[position], data[position - 1]):
                data[position - 1], data[position] = data[position], data[position - 1]
                position -= 1
    size = _BLOCK
    while size < len(data):
        for start in range(0, len(data) - size, 2 * size):
            _merge(data, start, start + size, min(start + 2 * size, len(data)), is_less)
        size *= 2
    return data


def _merge(data: list[Any], start: int, middle: int, end: int, is_less: Less) -> None:
    """Merge the sorted runs from `start` and from `middle`."""
    if middle - start == 1:
        one = data[start]
        position = _first(middle, end, lambda number: not is_less(data[number], one))
        data[start:position] = [*data[middle:position], one]
        return
    if end - middle == 1:
        one = data[middle]
        position = _first(start, middle, lambda number: is_less(one, data[number]))
        data[position:end] = [one, *data[position:middle]]
        return
    half = (start + end) // 2
    total = half + middle
    low, high = (total - end, half) if middle > half else (start, middle)
    cut = _first(low, high, lambda number: is_less(data[total - 1 - number], data[number]))
    other_cut = total - cut
    if cut < middle < other_cut:
        data[cut:other_cut] = [*data[middle:other_cut], *data[cut:middle]]
    if start < cut < half:
        _merge(data, start, cut, half, is_less)
    if half < other_cut < end:
        _merge(data, half, other_cut, end, is_less)


def _first(low: int, high: int, is_found: Callable[[int], bool]) -> int:
    """Return the first number from `low` below `high` that a binary search finds, `high` if it finds none."""
    while low < high:
        half = (low + high) // 2
        if is_found(half):
            high = half
        else:
            low = half + 1
    return low
