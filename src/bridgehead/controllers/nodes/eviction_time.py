"""Eviction time of a pod under its node's NoExecute taints.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Taints and Tolerations"; `pkg/controller/tainteviction`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.objects.core import Taint, Toleration
from bridgehead.objects.node_fit import tolerates
from bridgehead.objects.times import parse_time

NEVER = float("inf")
NO_EXECUTE = "NoExecute"


def eviction_time(taints: Sequence[Taint], tolerations: Sequence[Toleration], observed: float) -> float:
    """Return the epoch seconds at which the pod must be evicted: at most `observed` for at once, NEVER if it may stay.

    A taint without `timeAdded`, as users add it, counts from `observed`.
    """
    due = NEVER
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not matching:
            return observed
        seconds = [float(t.toleration_seconds) for t in matching if t.toleration_seconds is not None]
        if seconds:
            since = parse_time(taint.time_added) if taint.time_added else observed
            due = min(due, since + max(0.0, min(seconds)))
    return due
