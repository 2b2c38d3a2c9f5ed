"""The status of a StatefulSet: counts of its pods, and its revisions.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `computeReplicaStatus`, `completeRollingUpdate` (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.controllers.workloads.availability import is_available
from bridgehead.objects.apps import StatefulSet, StatefulSetStatus
from bridgehead.objects.core import Pod

from .identity import revision_of


def compute_status(
    stateful_set: StatefulSet, pods: Iterable[Pod], current_revision: str, update_revision: str, now: float
) -> StatefulSetStatus:
    """Count the pods. A finished update makes its revision the current one."""
    pods = list(pods)
    ready = [pod for pod in pods if pod.status.phase == "Running" and pod.is_ready]
    revisions = [revision_of(pod) for pod in pods if not pod.is_terminating]
    available = sum(is_available(pod, stateful_set.spec.min_ready_seconds, now) for pod in ready)
    current, updated = revisions.count(current_revision), revisions.count(update_revision)
    is_rolling = stateful_set.spec.update_strategy.type == "RollingUpdate"
    if is_rolling and updated == len(ready) == len(pods) == stateful_set.spec.replicas:
        current, current_revision = updated, update_revision
    return StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=len(ready),
        current_replicas=current,
        updated_replicas=updated,
        current_revision=current_revision,
        update_revision=update_revision,
        collision_count=stateful_set.status.collision_count or 0,
        available_replicas=available,
    )
