"""Exponential back-off: each failure in a row multiplies the delay before the next try, up to a bound.

Pure: no I/O, no clock, no randomness. Delays and times are in seconds, on the caller's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_MOST_FACTORS = 64  # from there on every delay is the maximum, and a float would overflow


def delay_after(failures: int, initial: float, maximum: float, factor: float = 2.0) -> float:
    """Return the delay after this many failures in a row: 0, `initial`, `initial` x `factor`, ... `maximum`."""
    return min(maximum, initial * factor ** min(failures - 1, _MOST_FACTORS)) if failures > 0 else 0.0


class Backoff:
    """The delays of one operation. `jitter` returns numbers from 0 to 1: each shortens a delay by up to a half."""

    def __init__(
        self,
        initial: float,
        maximum: float,
        *,
        factor: float = 2.0,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        self.failures = 0  # in a row
        self._initial = initial
        self._maximum = maximum
        self._factor = factor
        self._jitter = jitter

    def next(self) -> float:
        """Record a failure and return the delay before the next try."""
        self.failures += 1
        delay = delay_after(self.failures, self._initial, self._maximum, self._factor)
        return delay * (1 - self._jitter() / 2) if self._jitter is not None else delay

    def reset(self) -> None:
        """Record a success: the next failure waits the initial delay."""
        self.failures = 0


class KeyedBackoff(Generic[K]):
    """The delays of many operations, each forgotten after twice the maximum without a failure.

    Source: `flowcontrol.Backoff` of k8s.io/client-go.
    """

    def __init__(self, initial: float, maximum: float) -> None:
        self._initial = initial
        self._maximum = maximum
        # key -> failures in a row, time of the try after the latest of them; the oldest try first
        self._entries: dict[K, tuple[int, float]] = {}

    def delay(self, key: K) -> float:
        """Return the present delay of `key`; 0 when it has not failed yet."""
        return delay_after(self._entries.get(key, (0, 0.0))[0], self._initial, self._maximum)

    def until(self, key: K, failed_at: float) -> float:
        """Return the time before which `key`, which failed at `failed_at`, must not be tried again."""
        return failed_at if self._is_expired(key, failed_at) else failed_at + self.delay(key)

    def remaining(self, key: K, now: float) -> float:
        """Return the seconds until the delay since the latest try of `key` is over; 0 when it is."""
        return 0.0 if self._is_expired(key, now) else max(0.0, self._entries[key][1] + self.delay(key) - now)

    def record(self, key: K, failed_at: float, now: float) -> None:
        """Record that `key`, which failed at `failed_at`, is tried again at `now`: its next failure waits longer."""
        failures = 0 if self._is_expired(key, failed_at) else self._entries[key][0]
        self._entries.pop(key, None)
        self._entries[key] = (failures + 1, now)

    def forget(self, key: K) -> None:
        self._entries.pop(key, None)

    def prune(self, now: float) -> None:
        """Drop expired keys, so that keys of operations that are never tried again do not accumulate."""
        while self._entries and self._is_expired(next(iter(self._entries)), now):
            del self._entries[next(iter(self._entries))]

    def _is_expired(self, key: K, failed_at: float) -> bool:
        entry = self._entries.get(key)
        return entry is None or failed_at - entry[1] > 2 * self._maximum
