"""Liveness of a part of the lab: whether it hangs.

A part hangs when its event loop has sent no heartbeat for some time. Time counts only while the process that listens
could have received one, as for nodes in docs/decisions/0017-stalls.md, and a part that only lacks a processor or waits
for a disk does not hang.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Final, NamedTuple

BEATS: Final = 3  # heartbeats within the time of silence
# Time until the first heartbeat, as a multiple of the time of silence: a part that starts reads its store or waits for
# another part.
_START: Final = 10
# A running part whose loop is blocked has used that share of the silence as processor time. A part that has used less
# waits for a processor.
_BUSY: Final = 1 / 3
# Problems by state of the process (proc(5)). Other states are transient, a wait for a disk, which no kill ends, or a
# debugger's.
_HANGS: Final = {"R": "its event loop is blocked", "S": "its event loop waits", "T": "it is stopped"}


class ThreadUse(NamedTuple):
    """State (a letter of proc(5)) and processor time of a thread (seconds)."""

    state: str
    cpu_seconds: float


class Pulse:
    """The heartbeats of one process. Times are seconds of a monotonic clock."""

    def __init__(self, silent_seconds: float, now: float) -> None:
        self._limit = silent_seconds
        self._has_begun = False
        self._looked = now
        self._use: ThreadUse | None = None  # at the last heartbeat
        self.silence = 0.0  # seconds in which a heartbeat could have been received

    def look(self, now: float) -> None:
        """Note that heartbeats could be received until `now`. A longer pause than between two heartbeats is none."""
        self.silence += min(now - self._looked, self._limit / BEATS)
        self._looked = now

    def receive(self, use: ThreadUse | None) -> None:
        self.silence, self._use, self._has_begun = 0.0, use, True

    @property
    def is_silent(self) -> bool:
        return self.silence >= self._limit * (1 if self._has_begun else _START)

    def describe_hang(self, use: ThreadUse | None) -> str:
        """Return why a silent process hangs, "" if it does not. `use` None: it has ended."""
        if use is None or use.state not in _HANGS:
            return ""
        spent = use.cpu_seconds - (self._use.cpu_seconds if self._use else 0.0)
        if use.state == "R" and spent < self._limit * _BUSY:
            return ""
        return f"it did not answer for {self.silence:.0f} s, {_HANGS[use.state]}"
