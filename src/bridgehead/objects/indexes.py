"""Sets of completion indexes in their text form: `1,3-5,7`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/controller/job/indexed_job_utils.go`.
"""

from __future__ import annotations

from collections.abc import Iterable


def parse_indexes(text: str, completions: int) -> frozenset[int]:
    """Return the indexes of `text`, in which numbers increase. Raises ValueError with the reason."""
    found: set[int] = set()
    last = -1
    for part in text.split(",") if text else ():
        first, dash, end = part.partition("-")
        numbers = [first, end] if dash else [first]
        if not all(number.isascii() and number.isdigit() for number in numbers):
            raise ValueError(f'cannot convert string to integer for index: "{part}"')
        low, high = int(numbers[0]), int(numbers[-1])
        if dash and low >= high:
            raise ValueError(f"non-increasing order, previous: {low}, current: {high}")
        if low <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {low}")
        if high >= completions:
            raise ValueError(f'too large index: "{part}"')
        found.update(range(low, high + 1))
        last = high
    return frozenset(found)


def known_indexes(text: str, completions: int) -> frozenset[int]:
    """Return the indexes of a status; what is not valid or not below `completions` is left out."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, end = part.partition("-")
        if first.isdigit() and (end or first).isdigit():
            found.update(range(int(first), min(int(end or first), completions - 1) + 1))
    return frozenset(found)


def format_indexes(indexes: Iterable[int]) -> str:
    """Return the shortest text: two neighbours are `1,2`, more are `1-3`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(
        str(low) if low == high else f"{low},{high}" if high == low + 1 else f"{low}-{high}" for low, high in runs
    )
