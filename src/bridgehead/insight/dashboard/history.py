"""Figures of the last minutes: rings of one size, at fixed steps.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

STEP_SECONDS = 2.0
MOST_POINTS = 450  # 15 minutes
HELD_STEPS = 8  # figures come less often on a busy machine
MOST_SERIES = 4_000  # the series that changed least recently is forgotten first


class History:
    """Series of figures by name. Several figures of one step: the last one.

    A step without a figure has that of an earlier step, at most HELD_STEPS before; else None.
    """

    def __init__(self, step: float = STEP_SECONDS, points: int = MOST_POINTS, series: int = MOST_SERIES) -> None:
        self._step = step
        self._points = points
        self._most = series
        self._series: OrderedDict[str, deque[tuple[int, float]]] = OrderedDict()

    def record(self, name: str, at: float, value: float | None) -> None:
        """Record a figure at a time in epoch seconds; nothing if it is None."""
        if value is None:
            return
        ring = self._series.get(name)
        if ring is None:
            ring = self._series[name] = deque(maxlen=self._points)
            if len(self._series) > self._most:
                self._series.popitem(last=False)
        self._series.move_to_end(name)
        step = int(at // self._step)
        if ring and ring[-1][0] >= step:
            ring[-1] = (ring[-1][0], value)
        else:
            ring.append((step, value))

    def read(self, names: Sequence[str], now: float) -> tuple[list[float], list[list[float | None]]]:
        """Return the times of the steps from the first figure to `now`, and a list of figures for each name."""
        last = int(now // self._step)
        oldest = last - self._points + 1
        rings = [[each for each in self._series.get(name, ()) if oldest <= each[0] <= last] for name in names]
        first = min((ring[0][0] for ring in rings if ring), default=last + 1)
        columns: list[list[float | None]] = []
        for ring in rings:
            column: list[float | None] = [None] * (last - first + 1)
            for at, (step, value) in enumerate(ring):
                end = ring[at + 1][0] if at + 1 < len(ring) else last + 1
                for each in range(step, min(end, step + 1 + HELD_STEPS)):
                    column[each - first] = value
            columns.append(column)
        return [step * self._step for step in range(first, last + 1)], columns
