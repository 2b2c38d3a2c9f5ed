"""Services that the kernel refused, and when each is tried again. Pure; `programmer.py` asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bridgehead.objects.meta import ObjectKey

FIRST_RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 300.0
CHANGED_RETRY_SECONDS = 1.0  # the least time between two tries of a Service that changes all the time


@dataclass
class _Refusal:
    tried: float
    delay: float
    due: float


class Refusals:
    """A Service is tried again when it changes, and by itself after 10 s, 20 s and so on up to five minutes."""

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
        earlier = self._refused.get(key)
        delay = FIRST_RETRY_SECONDS if earlier is None else min(2 * earlier.delay, LONGEST_RETRY_SECONDS)
        now = self._now()
        self._refused[key] = _Refusal(now, delay, now + delay)

    def accept(self, key: ObjectKey) -> None:
        self._refused.pop(key, None)

    def may_try(self, key: ObjectKey) -> bool:
        """Whether a Service that has just changed is tried now. If not, it will be due soon."""
        if self._now() >= self._refused[key].tried + CHANGED_RETRY_SECONDS:
            return True
        self.hurry(key)
        return False

    def hurry(self, key: ObjectKey) -> None:
        """It could not be tried; it is due as soon as may be."""
        refusal = self._refused[key]
        refusal.due = min(refusal.due, refusal.tried + CHANGED_RETRY_SECONDS)

    def due(self) -> set[ObjectKey]:
        """Those whose time has come."""
        now = self._now()
        return {key for key, refusal in self._refused.items() if refusal.due <= now}

    def due_in(self) -> float | None:
        """Seconds until the next is due; None: there is none."""
        if not self._refused:
            return None
        return max(min(refusal.due for refusal in self._refused.values()) - self._now(), 0.0)
