"""The faults of a run as a function of its seed: equal arguments give equal faults."""

from __future__ import annotations

import random
from collections.abc import Collection

from .faults import SPECS, Fault, FaultKind

_PICKS = 1 << 16


def plan_faults(seed: int, count: int, seconds: float, kinds: Collection[FaultKind]) -> list[Fault]:
    """`count` faults within `seconds`, in the order of time; every kind once before any kind comes a second time.

    The moments are uniformly distributed, so that faults overlap as chance has it.
    """
    rng = random.Random(seed)
    chosen = sorted(kinds)
    drawn = list(chosen)
    rng.shuffle(drawn)
    weights = [SPECS[kind].weight for kind in chosen]
    drawn += rng.choices(chosen, weights, k=max(0, count - len(drawn)))
    moments = sorted(rng.uniform(0, seconds) for _ in range(count))
    return [_fault(rng, at, kind) for at, kind in zip(moments, drawn, strict=False)]


def _fault(rng: random.Random, at: float, kind: FaultKind) -> Fault:
    spec = SPECS[kind]
    return Fault(at, kind, rng.randrange(_PICKS), rng.uniform(spec.shortest, spec.longest))
