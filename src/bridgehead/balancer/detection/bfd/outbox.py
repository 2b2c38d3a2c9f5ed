"""Reports about BFD sessions to the speaker, which may not read for a while.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.balancer.detection.engine import NEVER, Report

from .messages import Change, Neighbor, report_change

RETRY_SECONDS = 0.05


class Outbox:
    """Sends changes of sessions by `report`, in their order, and keeps those that the speaker does not take.

    The first and the last change of one session are kept: what happened to it, and what it is now. A speaker that was
    stopped for long therefore learns that a path failed that works again.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._waiting: dict[Neighbor, list[Change]] = {}
        self.next_deadline = NEVER

    def add(self, change: Change, now: float) -> None:
        """Report a change, after those that wait."""
        self._waiting.setdefault(change.neighbor, [])[1:] = [change]
        self.send_waiting(now)

    def forget(self, neighbor: Neighbor) -> None:
        """Drop what waits about a session that has ended."""
        self._waiting.pop(neighbor, None)

    def send_waiting(self, now: float) -> None:
        """Send what waits, until the speaker takes no more."""
        self.next_deadline = NEVER
        for neighbor, changes in list(self._waiting.items()):
            while changes:
                if not self._report(report_change(changes[0])):
                    self.next_deadline = now + RETRY_SECONDS
                    return
                changes.pop(0)
            del self._waiting[neighbor]
