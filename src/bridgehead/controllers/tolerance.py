"""When a pod has to leave a node because of its NoExecute taints. Pure.

Source: Kubernetes "Taints and Tolerations"; `pkg/controller/tainteviction`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.objects.core import Taint, Toleration
from bridgehead.objects.times import parse_time

NEVER = float("inf")
NO_EXECUTE = "NoExecute"


def is_tolerated_by(taint: Taint, toleration: Toleration) -> bool:
    """An empty key (with Exists) matches every key, an empty effect every effect."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value and bool(toleration.key)
    return toleration.operator == "Exists"


def eviction_time(taints: Sequence[Taint], tolerations: Sequence[Toleration], now: float) -> float:
    """Seconds since the epoch at which the pod has to leave: `now` at the latest it may stay no more, NEVER if it may.

    A taint without `timeAdded` counts from `now`.
    """
    due = NEVER
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        matching = [toleration for toleration in tolerations if is_tolerated_by(taint, toleration)]
        if not matching:
            return now
        seconds = [float(t.toleration_seconds) for t in matching if t.toleration_seconds is not None]
        if seconds:
            since = parse_time(taint.time_added) if taint.time_added else now
            due = min(due, since + max(0.0, min(seconds)))
    return due
