"""The thresholds of a probe: how many equal results in a row decide it.

Pure: no I/O, no clock, no randomness. Source: kubelet's `prober/worker.go`.
"""

from __future__ import annotations

from bridgehead.objects.core import Probe


class ProbeState:
    """Counts equal results in a row. `passes` is the last decision; `initial` before the first one."""

    def __init__(self, probe: Probe, initial: bool | None) -> None:
        self._probe = probe
        self.passes = initial
        self._last: bool | None = None
        self._in_a_row = 0

    def feed(self, success: bool) -> bool:
        """Count one result; return whether it reached a threshold, which decides `passes` (again)."""
        self._in_a_row = self._in_a_row + 1 if success == self._last else 1
        self._last = success
        threshold = self._probe.success_threshold if success else self._probe.failure_threshold
        if self._in_a_row < threshold:
            return False
        self.passes = success
        return True
