"""Counts of a Job's pods: active, ready, terminating, succeeded, failed, by index where the Job has indexes.

A pod that has ended keeps the finalizer `batch.kubernetes.io/job-tracking` until it is counted, so that none is missed
and none counted twice, whatever happens to the controller. Counting takes three writes: the pod's uid goes to
`status.uncountedTerminatedPods`, the finalizer goes, the uid becomes part of a counter. Completed and failed indexes
are sets and need no such care.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `trackJobStatusAndRemoveFinalizers`, KEP-2307.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bridgehead.objects.batch import Job, UncountedTerminatedPods
from bridgehead.objects.core import Pod
from bridgehead.objects.indexes import (
    Interval,
    common_intervals,
    count_indexes,
    known_indexes,
    merge_intervals,
    missing_intervals,
)
from bridgehead.objects.integers import parse_integer
from bridgehead.objects.meta import find_condition, is_condition_true
from bridgehead.objects.times import parse_time

from .failure_policy import match_failure

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
FAILURE_TARGET = "FailureTarget"  # the condition of a Job that is about to fail
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"


@dataclass
class Progress:
    """The state of a Job's pods.

    `succeeded` and `failed` are the counters that the status gets; `uncounted` what waits for its finalizer to go;
    `to_release` the pods whose finalizer may go now. `all_succeeded` and `all_failed` include uncounted pods.
    `failed_job_message`: why a failure fails the whole Job, "" if none does. `last_failures`: times, in epoch seconds,
    of failures since the last success, the newest last. Sets of indexes are increasing runs.
    """

    active: list[Pod] = field(default_factory=list)
    terminating: list[Pod] = field(default_factory=list)
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    all_succeeded: int = 0
    all_failed: int = 0
    uncounted: UncountedTerminatedPods = field(default_factory=UncountedTerminatedPods)
    to_release: list[Pod] = field(default_factory=list)
    completed_indexes: list[Interval] = field(default_factory=list)
    failed_indexes: list[Interval] = field(default_factory=list)
    failures_by_index: dict[int, list[Pod]] = field(default_factory=dict)
    failed_job_message: str = ""
    last_failures: list[float] = field(default_factory=list)
    restarts: int = 0  # of the containers of active pods, for restartPolicy OnFailure


def is_tracked(pod: Pod) -> bool:
    return TRACKING_FINALIZER in pod.metadata.finalizers


def index_of(pod: Pod) -> int | None:
    """Return the completion index of a pod; None without a valid one: a 64-bit integer of at least 0."""
    index = parse_integer(pod.metadata.annotations.get(INDEX, ""))
    return index if index is not None and index >= 0 else None


def count_pods(job: Job, pods: Sequence[Pod]) -> Progress:
    """Count the pods that belong to the Job."""
    spec, status = job.spec, job.status
    completions = spec.completions or 0
    progress = Progress(succeeded=status.succeeded, failed=status.failed)
    completed_indexes = known_indexes(status.completed_indexes, completions) if spec.is_indexed else []
    failed_indexes = known_indexes(status.failed_indexes or "", completions) if spec.is_indexed else []
    before = status.uncounted_terminated_pods or UncountedTerminatedPods()
    tracked = {pod.metadata.uid for pod in pods if is_tracked(pod)}
    # The uids whose finalizer is gone become part of the counters.
    progress.succeeded += sum(uid not in tracked for uid in before.succeeded)
    progress.failed += sum(uid not in tracked for uid in before.failed)
    # Sets that keep their order: a Job may have a hundred thousand pods.
    succeeded = dict.fromkeys(uid for uid in before.succeeded if uid in tracked)
    failed = dict.fromkeys(uid for uid in before.failed if uid in tracked)
    # A Job that fails counts each pod that is deleted as failed, too.
    only_failed = spec.pod_replacement_policy == "Failed" and not is_condition_true(status.conditions, FAILURE_TARGET)
    last_success = 0.0
    failure_times: list[float] = []
    for pod in pods:
        uid, phase = pod.metadata.uid, pod.status.phase
        has_failed = phase == "Failed" or (pod.is_terminating and phase != "Succeeded" and not only_failed)
        if phase == "Succeeded":
            last_success = max(last_success, end_of(pod))
            if not is_tracked(pod):
                continue
            progress.to_release.append(pod)
            if spec.is_indexed:
                index = index_of(pod)
                if index is not None and index < completions:
                    completed_indexes.append((index, index))
            else:
                succeeded[uid] = None
        elif has_failed:
            if phase != "Failed":
                progress.terminating.append(pod)
            if phase != "Failed" and not is_tracked(pod):
                continue  # deleted by the controller itself, which is no failure
            match = match_failure(spec.pod_failure_policy, pod)
            if match.action == "FailJob":
                progress.failed_job_message = progress.failed_job_message or match.message
            if match.action != "Ignore":
                failure_times.append(end_of(pod))
            index = index_of(pod)
            if spec.backoff_limit_per_index is not None and index is not None:
                progress.failures_by_index.setdefault(index, []).append(pod)
                if match.action == "FailIndex" or _exceeds_limit(pod, spec.backoff_limit_per_index, match.action):
                    failed_indexes.append((index, index))
            if is_tracked(pod):
                progress.to_release.append(pod)
                if match.action != "Ignore":
                    failed[uid] = None
        elif pod.is_terminating:
            progress.terminating.append(pod)
        else:
            progress.active.append(pod)
            progress.ready += pod.is_ready
            progress.restarts += _restarts(pod)
    if spec.is_indexed:
        progress.completed_indexes = merge_intervals(completed_indexes)
        progress.failed_indexes = _without(merge_intervals(failed_indexes), progress.completed_indexes)
        progress.succeeded = count_indexes(progress.completed_indexes)
    progress.uncounted = UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    progress.all_succeeded = progress.succeeded + (0 if spec.is_indexed else len(succeeded))
    progress.all_failed = progress.failed + len(failed)
    progress.last_failures = sorted(time for time in failure_times if time >= last_success)
    return progress


def _without(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    return common_intervals(some, missing_intervals(others, some[-1][1] + 1)) if some else []


def failure_count(pod: Pod, name: str = FAILURE_COUNT) -> int:
    """Return how many pods of the same index had failed when this one was made; 0 without a valid 32-bit integer."""
    return max(parse_integer(pod.metadata.annotations.get(name, ""), bits=32) or 0, 0)


def _exceeds_limit(pod: Pod, limit: int, action: str) -> bool:
    return action != "Ignore" and failure_count(pod) + 1 > limit


def _restarts(pod: Pod) -> int:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return sum(status.restart_count for status in statuses)


def end_of(pod: Pod) -> float:
    """Return when the pod ended, in epoch seconds: with its last container; else when it was not ready any more, when
    its deletion was requested, or its creation. Source: Kubernetes' `getFinishedTime`."""
    sidecars = {container.name for container in pod.spec.init_containers if container.is_sidecar}
    states = [status.state.terminated for status in pod.status.container_statuses]
    states += [one.state.terminated for one in pod.status.init_container_statuses if one.name in sidecars]
    ends = [_seconds(state.finished_at) if state is not None else 0.0 for state in states]
    if ends and all(ends):
        return max(ends)
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return _seconds(ready.last_transition_time)
    meta = pod.metadata
    if meta.deletion_timestamp:  # the end of the grace period
        return _seconds(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0)
    return _seconds(meta.creation_timestamp)


def _seconds(text: str | None) -> float:
    try:
        return parse_time(text) if text else 0.0
    except ValueError:
        return 0.0


def missing_indexes(job: Job, progress: Progress, waiting: Iterable[Pod], count: int) -> list[int]:
    """Return the lowest `count` indexes for which a pod is needed. `waiting`: pods that hold their index."""
    held = [(index, index) for pod in waiting if (index := index_of(pod)) is not None]
    taken = merge_intervals([*held, *progress.completed_indexes, *progress.failed_indexes])
    missing = missing_intervals(taken, job.spec.completions or 0)
    return list(islice((index for low, high in missing for index in range(low, high + 1)), max(count, 0)))
