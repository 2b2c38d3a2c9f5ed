"""Sets of completion indexes in their text form: `1,3-5,7`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/controller/job/indexed_job_utils.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .integers import parse_integer

# The first and the last index of a run of indexes.
Interval = tuple[int, int]


def parse_intervals(text: str, completions: int) -> list[Interval]:
    """Return the runs of indexes of `text`, in which numbers increase. Raises ValueError with the reason."""
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        low, high = parse_interval(part, completions)
        if found and found[-1][1] >= low:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {low}")
        found.append((low, high))
    return found


def parse_interval(text: str, completions: int) -> Interval:
    """Return the run of one part of a text. Raises ValueError with the reason."""
    limits = text.split("-")
    if len(limits) > 2:
        raise ValueError(
            f'the fragment "{text}" violates the requirement that an index interval can have at most two parts '
            "separated by '-'"
        )
    numbers = []
    for limit in limits:
        number = parse_integer(limit) if limit.isascii() and limit.isdigit() else None
        if number is None:
            raise ValueError(f'cannot convert string to integer for index: "{limit}"')
        numbers.append(number)
        if numbers[-1] >= completions:
            raise ValueError(f'too large index: "{limit}"')
    if len(numbers) > 1 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def count_indexes(intervals: Iterable[Interval]) -> int:
    return sum(high - low + 1 for low, high in intervals)


def known_intervals(text: str, completions: int) -> list[Interval]:
    """Return the valid runs of a text that may contain anything."""
    found = []
    for part in text.split(",") if text else ():
        try:
            found.append(parse_interval(part, completions))
        except ValueError:
            continue
    return found


def first_common_index(some: Sequence[Interval], others: Sequence[Interval]) -> int | None:
    """Return the lowest index that is in both sets of increasing runs."""
    one = other = 0
    while one < len(some) and other < len(others):
        (low, high), (other_low, other_high) = some[one], others[other]
        if low <= other_high and other_low <= high:
            return max(low, other_low)
        if low <= other_low:
            one += 1
        else:
            other += 1
    return None


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
