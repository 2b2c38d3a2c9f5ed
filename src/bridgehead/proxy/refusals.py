"""The Services that the kernel refused, and the time when each is retried. `programmer.py` uses it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bridgehead.backoff import delay_after
from bridgehead.objects.meta import ObjectKey

FIRST_RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 300.0
CHANGED_RETRY_SECONDS = 1.0  # least time between two attempts of a Service that changes all the time


@dataclass
class _Refusal:
    tried: float
    failures: int  # in a row
    due: float


class Refusals:
    """A refused Service is retried when it changes, and without a change after 10 s, 20 s and so on up to 5 minutes."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._refused: dict[ObjectKey, _Refusal] = {}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._refused

    def __len__(self) -> int:
        return len(self._refused)

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._refused)

    def refuse(self, key: ObjectKey) -> None:
        """Record that the kernel refused the Service."""
        earlier = self._refused.get(key)
        failures = earlier.failures + 1 if earlier is not None else 1
        now = self._now()
        due = now + delay_after(failures, FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self._refused[key] = _Refusal(now, failures, due)

    def accept(self, key: ObjectKey) -> None:
        """Record that the kernel accepted the Service."""
        self._refused.pop(key, None)

    def may_try(self, key: ObjectKey) -> bool:
        """Return whether a Service that has just changed may be tried now. If not, it will be due soon."""
        if self._now() >= self._refused[key].tried + CHANGED_RETRY_SECONDS:
            return True
        self.hurry(key)
        return False

    def hurry(self, key: ObjectKey) -> None:
        """Make a Service due as soon as is allowed: it could not be tried."""
        refusal = self._refused[key]
        refusal.due = min(refusal.due, refusal.tried + CHANGED_RETRY_SECONDS)

    def due(self) -> set[ObjectKey]:
        """Return the Services whose retry is due."""
        now = self._now()
        return {key for key, refusal in self._refused.items() if refusal.due <= now}

    def due_in(self) -> float | None:
        """Return the seconds until the next retry is due; None: no Service is refused."""
        if not self._refused:
            return None
        return max(min(refusal.due for refusal in self._refused.values()) - self._now(), 0.0)
