"""Active, ready and available pods.

Pure: no I/O, no clock, no randomness. Times are in seconds since the epoch.
Source: Kubernetes `pkg/api/v1/pod` and `pkg/controller/controller_utils.go`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.objects.core import Pod
from bridgehead.objects.meta import find_condition
from bridgehead.objects.times import parse_time


def is_active(pod: Pod) -> bool:
    """Whether `pod` counts as a replica: it has not ended and is not terminating."""
    return not pod.is_finished and not pod.is_terminating


def ready_since(pod: Pod) -> float | None:
    """Return the time since which `pod` has been ready; None when it is not ready."""
    condition = find_condition(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True":
        return None
    return parse_time(condition.last_transition_time) if condition.last_transition_time else 0.0


def available_in(pod: Pod, min_ready_seconds: int, now: float) -> float | None:
    """Return the seconds until `pod` is available if it stays ready: 0 for now, None when it is not ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return max(0.0, since + min_ready_seconds - now) if min_ready_seconds else 0.0


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    return available_in(pod, min_ready_seconds, now) == 0.0


def next_availability(pods: Iterable[Pod], min_ready_seconds: int, now: float) -> float | None:
    """Return the seconds until the next ready pod becomes available; None when no pod will by time alone."""
    waits = (available_in(pod, min_ready_seconds, now) for pod in pods)
    return min((wait for wait in waits if wait), default=None)
