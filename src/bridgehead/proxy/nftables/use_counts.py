"""Counts of the Frontends that use shared objects: what is needed now for the first time, and what no more.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from .chains import Chain

Counted = TypeVar("Counted")


def count(counter: Counter[Counted], steps: Counter[Counted]) -> tuple[list[Counted], list[Counted]]:
    """Add `steps` to `counter`. Return what became positive, and what is not positive any more."""
    new, old = [], []
    for thing, step in steps.items():
        before = counter[thing]
        after = before + step
        if after > 0:
            counter[thing] = after
            if before <= 0:
                new.append(thing)
        else:
            del counter[thing]
            if before > 0:
                old.append(thing)
    return new, old


def count_chains(counter: Counter[Chain], steps: Counter[Chain]) -> tuple[list[Chain], list[Chain]]:
    """Add `steps` to `counter`, and count the targets of each chain as long as the chain exists itself.

    Return the chains that are new, and those that are not used any more. A chain that became both is neither.
    """
    balance: Counter[Chain] = Counter()  # 1: new, -1: not used any more
    while steps:
        new, old = count(counter, steps)
        steps = Counter()
        for chains, step in ((new, 1), (old, -1)):
            for chain in chains:
                balance[chain] += step
                for target in chain.targets:
                    steps[target] += step
    return [chain for chain, step in balance.items() if step > 0], [c for c, step in balance.items() if step < 0]
