"""Takeovers of addresses whose nodes died, for the status page, metrics and the log."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from .failure_detection import MemberChange

log = logging.getLogger(__name__)

_REMEMBERED: Final = 50


@dataclass(frozen=True)
class Takeover:
    """Addresses that this node took over because other nodes died.

    `at`: epoch seconds. `seconds`: from the last evidence of the first of them until this node announced.
    """

    at: float
    nodes: tuple[str, ...]
    reason: str
    addresses: int
    seconds: float


class Takeovers:
    """The `latest` takeovers of this node, and the number of all."""

    def __init__(self) -> None:
        self.latest: deque[Takeover] = deque(maxlen=_REMEMBERED)
        self.count = 0
        self._changes: list[MemberChange] = []  # which the announcers do not know yet
        self._changed_at = 0.0

    def add_changes(self, changes: list[MemberChange]) -> None:
        """Take members that came or died."""
        self._changes += changes
        self._changed_at = time.monotonic()

    def record(self, gained: int) -> None:
        """Record that the announcers know the changes, and announce so many addresses more than before."""
        dead = [change for change in self._changes if not change.is_alive]
        self._changes.clear()
        if dead and gained > 0:
            seconds = max(change.silence for change in dead) + time.monotonic() - self._changed_at
            names = tuple(change.node for change in dead)
            self.count += 1
            self.latest.append(Takeover(time.time(), names, dead[0].reason, gained, seconds))
            log.info("took over %d addresses from %s within %.0f ms", gained, ", ".join(names), seconds * 1000)
