"""Choice of the pods to delete when a ReplicaSet is scaled down. Called by `replicaset_controller`.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes "ReplicaSet: Scaling a ReplicaSet", and `ActivePodsWithRanks` in `pkg/controller`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from bridgehead.objects.core import Pod
from bridgehead.objects.integers import parse_integer
from bridgehead.objects.times import parse_time

from .availability import is_active, ready_since

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}

RankKey = tuple[bool, int, bool, int, int, float, int, float, str]


def deletion_cost(pod: Pod) -> int:
    """Return the pod's `pod-deletion-cost` annotation; 0 without a valid 32-bit integer."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit()) or (len(digits) > 1 and digits[0] == "0"):
        return 0
    return parse_integer(text, bits=32) or 0


def _age_class(since: float, now: float) -> float:
    """Return the age as a power of two. Within a class uids decide, so that pods of one age are not all deleted."""
    age = now - since
    return -1.0 if age <= 0 else float(math.floor(math.log2(age * 1e9)))


def choose_victims(pods: Iterable[Pod], related: Iterable[Pod], count: int, now: float) -> list[Pod]:
    """Return the `count` pods to delete, in this order.

    `related`: the pods of all ReplicaSets of the same Deployment, including `pods`. A node with more of them loses one
    earlier. `now` is in seconds since the epoch.
    """
    neighbours = Counter(pod.spec.node_name for pod in related if is_active(pod))

    def rank(pod: Pod) -> RankKey:
        ready = ready_since(pod)
        created = parse_time(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else now
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 2),
            ready is not None,
            deletion_cost(pod),
            -neighbours[pod.spec.node_name],
            _age_class(ready, now) if ready is not None else 0.0,
            -max((status.restart_count for status in pod.status.container_statuses), default=0),
            _age_class(created, now),
            pod.metadata.uid,
        )

    pods = list(pods)
    if count >= len(pods):
        return pods
    return sorted(pods, key=rank)[: max(0, count)]
