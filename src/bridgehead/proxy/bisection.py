"""Find the Services that the kernel refuses, by bisection. `programmer.py` makes the attempts.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import TypeVar

from bridgehead.objects.meta import ObjectKey

Batch = Sequence[ObjectKey]
Rejection = str | None  # the kernel's text; None: the batch was accepted
Search = Generator[Batch, Rejection, dict[ObjectKey, str]]
T = TypeVar("T")
Fallbacks = Mapping[ObjectKey, T | None]  # what a Service has while the kernel refuses it; None: nothing


def suspects(fallbacks: Fallbacks[T], services: Iterable[ObjectKey]) -> list[Fallbacks[T]]:
    """Return the groups of Services to search, one after the other.

    The Services that changed, which have fallbacks, come first: of all others, and of the fallbacks, it is known that
    they are accepted. Then all are searched, without fallbacks.
    """
    everything: Fallbacks[T] = dict.fromkeys(services)
    return [fallbacks, everything] if fallbacks else [everything]


def find_refused(services: Iterable[ObjectKey]) -> Search:
    """Yield each batch to try, receive its result, and return the refused Services with the kernel's texts.

    Every Service ends in an accepted batch or is refused alone. One refused Service among n takes about 2 log2(n)
    attempts. An accepted batch is never tried again, so the caller may leave it in the kernel.
    """
    refused: dict[ObjectKey, str] = {}
    batches = [list(services)]
    while batches:
        batch = batches.pop()
        rejection = (yield batch) if batch else None
        if rejection is None:
            continue
        if len(batch) == 1:
            refused[batch[0]] = rejection
        else:
            batches += reversed(halves(batch))
    return refused


def halves(services: Batch) -> tuple[list[ObjectKey], list[ObjectKey]]:
    """Return the first and the second half."""
    middle = len(services) // 2
    return list(services[:middle]), list(services[middle:])


def parts_to_withhold(services: Batch) -> list[list[ObjectKey]]:
    """Return the parts to leave out, one after the other, until the kernel accepts the rest: each half, then all."""
    return [*halves(services), list(services)] if len(services) > 1 else [list(services)] if services else []


async def drive(search: Search, attempt: Callable[[Batch], Awaitable[Rejection]]) -> dict[ObjectKey, str]:
    """Make each attempt of a search, and return the refused Services with the kernel's texts."""
    result: Rejection = None
    while True:
        try:
            batch = search.send(result)
        except StopIteration as end:
            refused: dict[ObjectKey, str] = end.value
            return refused
        result = await attempt(batch)
