"""Waiting longer after each failure, as Kubernetes does for crashing containers and missing images.

Called by the pod worker. Source: kubelet's `flowcontrol.Backoff` (10 s doubling to 5 min, forgotten after 10 min
without a failure); critical pods wait less (docs/decisions/0017-stalls.md). Times are seconds, on whichever
clock the caller uses.
"""

from __future__ import annotations

INITIAL_SECONDS = 10.0
MAXIMUM_SECONDS = 300.0
CRITICAL_INITIAL_SECONDS = 1.0
CRITICAL_MAXIMUM_SECONDS = 5.0
CRITICAL_CLASSES = frozenset({"system-node-critical", "system-cluster-critical"})


class BackOff:
    """The waiting times of one pod's containers, by name."""

    def __init__(self, initial: float = INITIAL_SECONDS, maximum: float = MAXIMUM_SECONDS) -> None:
        self._initial = initial
        self._maximum = maximum
        self._entries: dict[str, tuple[float, float]] = {}  # name -> (delay, time of the failure it counts from)

    def delay(self, name: str) -> float:
        """The present waiting time of `name`; 0 when it has not failed yet."""
        return self._entries.get(name, (0.0, 0.0))[0]

    def until(self, name: str, failed_at: float) -> float:
        """The time before which `name`, which failed at `failed_at`, must not be tried again."""
        delay, last = self._entries.get(name, (0.0, failed_at))
        if failed_at - last > 2 * self._maximum:
            return failed_at
        return failed_at + delay

    def retry(self, name: str, failed_at: float, now: float) -> None:
        """`name`, which failed at `failed_at`, is tried again at `now`: the next failure waits longer."""
        delay, last = self._entries.get(name, (0.0, now))
        if delay == 0.0 or failed_at - last > 2 * self._maximum:
            self._entries[name] = (self._initial, now)
        else:
            self._entries[name] = (min(delay * 2, self._maximum), now)

    def forget(self, name: str) -> None:
        self._entries.pop(name, None)


def crash_back_off(priority_class: str) -> BackOff:
    """The waiting times of crashing containers of a pod with this `priorityClassName`."""
    if priority_class in CRITICAL_CLASSES:
        return BackOff(CRITICAL_INITIAL_SECONDS, CRITICAL_MAXIMUM_SECONDS)
    return BackOff()


def format_duration(seconds: float) -> str:
    """As Go prints it: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
