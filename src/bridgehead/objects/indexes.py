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


def merge_intervals(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same indexes in as few runs as possible, which increase."""
    merged: list[Interval] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return merged


def missing_intervals(intervals: Iterable[Interval], completions: int) -> list[Interval]:
    """Return the runs of the indexes below `completions` that are in none of these increasing runs."""
    missing = []
    first = 0
    for low, high in intervals:
        if first < min(low, completions):
            missing.append((first, min(low, completions) - 1))
        first = high + 1
    return [*missing, (first, completions - 1)] if first < completions else missing


def common_intervals(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the runs of the indexes that are in both sets of increasing runs."""
    common = []
    one = other = 0
    while one < len(some) and other < len(others):
        (low, high), (other_low, other_high) = some[one], others[other]
        if max(low, other_low) <= min(high, other_high):
            common.append((max(low, other_low), min(high, other_high)))
        if high <= other_high:
            one += 1
        else:
            other += 1
    return common


def known_indexes(text: str, completions: int) -> list[Interval]:
    """Return the increasing runs of a status; what is not valid or not below `completions` is left out."""
    found = []
    for part in text.split(",") if text else ():
        limits = part.split("-", 1)
        numbers = [parse_integer(limit) if limit.isascii() and limit.isdigit() else None for limit in limits]
        low, high = numbers[0], numbers[-1]
        if low is not None and high is not None and low <= (high := min(high, completions - 1)):
            found.append((low, high))
    return merge_intervals(found)


def format_intervals(intervals: Iterable[Interval]) -> str:
    """Return the shortest text of merged runs: two neighbours are `1,2`, more are `1-3`."""
    return ",".join(
        str(low) if low == high else f"{low},{high}" if high == low + 1 else f"{low}-{high}" for low, high in intervals
    )
