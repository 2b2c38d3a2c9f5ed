"""The next step of a StatefulSet: pods to create, to delete, and to correct. Called by `statefulset_controller`.

With OrderedReady, a step is one creation or one deletion, and waits for all pods before it; with Parallel, nothing
waits. Updates come after scaling. Pure: no I/O, no clock, no randomness. Times are in seconds since the epoch.
Source: Kubernetes `pkg/controller/statefulset/stateful_set_control.go` (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from bridgehead.controllers.workloads.availability import is_available
from bridgehead.controllers.workloads.rollout import scaled_value
from bridgehead.objects.apps import StatefulSet
from bridgehead.objects.core import Pod

from .identity import ordinal_of, revision_of


@dataclass
class StatefulPlan:
    """One step.

    `create`: ordinals of missing pods, the lowest first, at most as many as there is room for. `complete`: ordinals of
    pods that wait, maybe for a missing claim. `correct`: pods whose labels and claims to compare with what they should
    be. `condemned`: pods beyond the ordinals, whose claims may get another owner. `delete`: pods to delete.
    """

    create: list[int] = field(default_factory=list)
    complete: list[int] = field(default_factory=list)
    correct: list[Pod] = field(default_factory=list)
    condemned: list[Pod] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)


def ordinals(stateful_set: StatefulSet) -> range:
    """Return the ordinals that have a pod."""
    start = stateful_set.spec.ordinals.start
    return range(start, start + stateful_set.spec.replicas)


def uses_old_revision(stateful_set: StatefulSet, ordinal: int) -> bool:
    """Whether a new pod of this ordinal gets the revision from before the update: below the partition."""
    strategy = stateful_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return False
    rolling = strategy.rolling_update
    kept = stateful_set.status.current_replicas if rolling is None else rolling.partition
    return ordinal < stateful_set.spec.ordinals.start + kept


def plan_step(
    stateful_set: StatefulSet, pods: Iterable[Pod], update_revision: str, now: float, room: int
) -> StatefulPlan:
    """Plan the next step. `pods` are those of the StatefulSet, with names that it gives; `room`: limit of creations.

    The time depends on the pods that exist and on `room`, not on the number of replicas, which has no limit.
    """
    return _Step(stateful_set, pods, update_revision, now, room).plan()


class _Step:
    def __init__(
        self, stateful_set: StatefulSet, pods: Iterable[Pod], update_revision: str, now: float, room: int
    ) -> None:
        self._set = stateful_set
        self._update_revision = update_revision
        self._now = now
        self._room = room
        self._is_ordered = stateful_set.spec.pod_management_policy != "Parallel"
        self._made = StatefulPlan()
        present = {ordinal: pod for pod in pods if (ordinal := ordinal_of(stateful_set, pod)) is not None}
        self._ordinals = ordinals(stateful_set)
        self._replicas = {ordinal: present[ordinal] for ordinal in sorted(present) if ordinal in self._ordinals}
        self._condemned = [
            pod for ordinal, pod in sorted(present.items(), reverse=True) if ordinal not in self._ordinals
        ]

    def plan(self) -> StatefulPlan:
        if self._plan_replicas() and self._plan_condemned() and self._set.spec.update_strategy.type == "RollingUpdate":
            self._plan_update()
        return self._made

    def _is_available(self, pod: Pod) -> bool:
        return (
            pod.status.phase == "Running"
            and not pod.is_terminating
            and is_available(pod, self._set.spec.min_ready_seconds, self._now)
        )

    def _plan_replicas(self) -> bool:
        """Plan creations and replacements; return whether later steps need not wait."""
        missing = next(self._missing(), None)
        for ordinal, pod in self._replicas.items():
            if self._is_ordered and missing is not None and missing < ordinal:
                break
            if pod.is_finished:
                if not pod.is_terminating:
                    self._made.delete.append(pod)
            else:
                if pod.status.phase == "Pending":
                    self._made.complete.append(ordinal)
                if self._is_available(pod) or not self._is_ordered:
                    self._made.correct.append(pod)
                    continue
            if self._is_ordered:
                return False
        self._made.create = list(islice(self._missing(), min(self._room, 1) if self._is_ordered else self._room))
        return missing is None or not self._is_ordered

    def _missing(self) -> Iterator[int]:
        """Return the ordinals without a pod, the lowest first."""
        return (ordinal for ordinal in self._ordinals if ordinal not in self._replicas)

    def _plan_condemned(self) -> bool:
        """Plan deletions from the highest ordinal down; return whether later steps need not wait."""
        self._made.condemned = self._condemned
        unavailable = next((pod for pod in reversed(self._condemned) if not self._is_available(pod)), None)
        for pod in self._condemned:
            if not pod.is_terminating and not (
                self._is_ordered and not self._is_available(pod) and pod is not unavailable
            ):
                self._made.delete.append(pod)
            if self._is_ordered:
                return False
        return True

    def _plan_update(self) -> None:
        """Plan deletions of pods of other revisions, from the highest ordinal down to the partition."""
        rolling = self._set.spec.update_strategy.rolling_update
        partition = rolling.partition if rolling is not None else 0
        most = scaled_value(
            rolling.max_unavailable if rolling is not None else None,
            self._set.spec.replicas,
            round_up=False,
            default=1,
        )
        available = sum(map(self._is_available, self._replicas.values()))
        room = max(1, most) - (self._set.spec.replicas - available)
        deleted = {pod.metadata.uid for pod in self._made.delete}
        for ordinal, pod in reversed(self._replicas.items()):
            if room <= 0 or ordinal < self._ordinals.start + partition:
                return
            if revision_of(pod) != self._update_revision and not pod.is_terminating:
                if pod.metadata.uid not in deleted:
                    self._made.delete.append(pod)
                room -= 1
