"""Limit of the pods that a controller creates for one owner in a short time.

The number of pods that an owner wants may be as large as the API allows, 2147483647. Each reconcile creates one burst
at most, and an owner whose burst is used up waits for the next one, so that work is in proportion to the pods that
exist, and other owners and controllers have their turn. Kubernetes' controllers create at most 500 pods in one
reconcile (`BurstReplicas` in `pkg/controller/replicaset`), and kube-controller-manager sends 20 requests a second
(`--kube-api-qps`); a burst every ten seconds is more than that. See docs/decisions/0056-bounded-work.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bridgehead.objects.meta import ObjectKey

# The largest number of pods to create for an owner in BURST_SECONDS, and to delete in one reconcile.
BURST: Final = 500
BURST_SECONDS: Final = 10.0


@dataclass
class _Burst:
    since: float
    created: int = 0


class Bursts:
    """Creations of one controller by the key of the pods' owner. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._size = BURST
        self._bursts: dict[ObjectKey, _Burst] = {}

    def room(self, owner: ObjectKey) -> int:
        """Return how many pods may be created now."""
        burst = self._current(owner)
        return self._size if burst is None else max(0, self._size - burst.created)

    def wait(self, owner: ObjectKey) -> float | None:
        """Return the seconds until there is room again; None while there is room."""
        burst = self._current(owner)
        if burst is None or burst.created < self._size:
            return None
        return burst.since + BURST_SECONDS - self._clock()

    def record(self, owner: ObjectKey, created: int, since: float) -> None:
        """Record pods that were created since then. Rejected ones do not count: their owner is retried later."""
        if created:
            burst = self._current(owner) or self._bursts.setdefault(owner, _Burst(since))
            burst.created += created

    def forget(self, owner: ObjectKey) -> None:
        self._bursts.pop(owner, None)

    def _current(self, owner: ObjectKey) -> _Burst | None:
        """Return the burst that has not ended yet."""
        burst = self._bursts.get(owner)
        # A clock that was set back ends the burst, too.
        if burst is not None and not 0 <= self._clock() - burst.since < BURST_SECONDS:
            del self._bursts[owner]
            return None
        return burst
