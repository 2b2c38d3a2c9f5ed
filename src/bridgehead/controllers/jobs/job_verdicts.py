"""Verdicts: whether a Job has succeeded or failed, and how many pods it needs.

Pure: no I/O, no clock, no randomness. Times in epoch seconds.
Source: Kubernetes `pkg/controller/job/job_controller.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridgehead.objects.batch import Job
from bridgehead.objects.indexes import common_intervals, count_indexes, known_intervals, merge_intervals
from bridgehead.objects.meta import find_condition
from bridgehead.objects.times import parse_time

from .progress import FAILURE_TARGET, IGNORED_FAILURE_COUNT, Progress, end_of, failure_count

FIRST_BACKOFF_SECONDS = 10.0
LONGEST_BACKOFF_SECONDS = 600.0


class Verdict(NamedTuple):
    """The decision about a Job. `type`: SuccessCriteriaMet or FailureTarget, the condition that announces it."""

    type: str
    reason: str
    message: str


def judge(job: Job, progress: Progress, now: float) -> Verdict | None:
    """Return the verdict; None while the Job goes on. A verdict that the status has already stays."""
    for kind in (FAILURE_TARGET, "SuccessCriteriaMet"):
        condition = find_condition(job.status.conditions, kind)
        if condition is not None and condition.status == "True":
            return Verdict(kind, condition.reason, condition.message)
    return _failure(job, progress, now) or _success(job, progress)


def _failure(job: Job, progress: Progress, now: float) -> Verdict | None:
    def failed(reason: str, message: str) -> Verdict:
        return Verdict(FAILURE_TARGET, reason, message)

    spec = job.spec
    if progress.failed_job_message:
        return failed("PodFailurePolicy", progress.failed_job_message)
    never = spec.template.spec.get("restartPolicy") == "Never"
    limit = spec.backoff_limit
    is_over = progress.all_failed > limit
    if not never and progress.restarts:  # the containers of running pods restart instead of failing the pod
        is_over = is_over or (progress.restarts > 0 if limit == 0 else progress.restarts >= limit)
    if is_over:
        return failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if deadline_in(job, now) == 0.0:
        return failed("DeadlineExceeded", "Job was active longer than specified deadline")
    if spec.backoff_limit_per_index is not None:
        failures = count_indexes(progress.failed_indexes)
        if spec.max_failed_indexes is not None and failures > spec.max_failed_indexes:
            return failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
        if failures and failures + count_indexes(progress.completed_indexes) >= (spec.completions or 0):
            return failed("FailedIndexes", "Job has failed indexes")
    return None


def _success(job: Job, progress: Progress) -> Verdict | None:
    spec = job.spec
    rules = spec.success_policy.rules if spec.success_policy is not None else ()
    for number, rule in enumerate(rules):
        done = progress.completed_indexes
        if rule.succeeded_indexes is not None:
            wanted = merge_intervals(known_intervals(rule.succeeded_indexes, spec.completions or 0))
            done = common_intervals(done, wanted)
            enough = count_indexes(wanted) if rule.succeeded_count is None else rule.succeeded_count
        else:
            enough = rule.succeeded_count or 0
        if count_indexes(done) >= enough:
            return Verdict("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {number}")
    if spec.completions is None:
        # Without a number of completions, one success lets the others finish and starts no more.
        is_complete = progress.all_succeeded > 0 and not progress.active
    else:
        is_complete = progress.all_succeeded >= spec.completions and not progress.active
    if not is_complete:
        return None
    return Verdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


def wanted_active(job: Job, progress: Progress) -> int:
    """Return how many pods are to be active."""
    spec = job.spec
    if spec.completions is None:
        return len(progress.active) if progress.all_succeeded else spec.parallelism
    remaining = spec.completions - progress.all_succeeded - count_indexes(progress.failed_indexes)
    return max(0, min(remaining, spec.parallelism))


def backoff_in(progress: Progress, now: float) -> float:
    """Return the seconds before the next pod may be created: 10, 20, 40 ... after the last failure, at most 600."""
    failures = progress.last_failures
    return _remaining(len(failures), failures[-1], now) if failures else 0.0


def indexes_in_time(indexes: Sequence[int], progress: Progress, now: float) -> tuple[list[int], float]:
    """Return those of `indexes` whose pods may be created now, and the seconds until the next of the others may be.

    If each index has a back-off limit of its own, only its own failures delay it. The seconds are 0 without others.
    """
    waits = {index: _index_backoff_in(progress, index, now) for index in indexes}
    ready = [index for index, wait in waits.items() if not wait]
    return ready, min((wait for wait in waits.values() if wait), default=0.0)


def _index_backoff_in(progress: Progress, index: int, now: float) -> float:
    failures = progress.failures_by_index.get(index)
    if not failures:
        return 0.0
    count = max(failure_count(pod) + failure_count(pod, IGNORED_FAILURE_COUNT) + 1 for pod in failures)
    return _remaining(count, max(map(end_of, failures)), now)


def _remaining(failures: int, last: float, now: float) -> float:
    delay = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_BACKOFF_SECONDS)
    return max(0.0, last + delay - now)


def deadline_in(job: Job, now: float) -> float | None:
    """Return the seconds until `activeDeadlineSeconds` are over, 0 when they are; None without a deadline, as while the
    Job is suspended."""
    if job.spec.active_deadline_seconds is None or job.status.start_time is None or job.spec.suspend:
        return None
    return max(0.0, parse_time(job.status.start_time) + job.spec.active_deadline_seconds - now)


def expiry_in(job: Job, now: float) -> float | None:
    """Return the seconds until a finished Job is to be deleted (`ttlSecondsAfterFinished`); None: never."""
    if job.spec.ttl_seconds_after_finished is None or not job.is_finished:
        return None
    ends = [
        condition.last_transition_time
        for condition in job.status.conditions
        if condition.type in ("Complete", "Failed") and condition.status == "True"
    ]
    end = next((parse_time(text) for text in ends if text), now)
    return max(0.0, end + job.spec.ttl_seconds_after_finished - now)
