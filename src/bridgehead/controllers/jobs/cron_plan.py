"""Times at which a CronJob starts a Job, and which of its finished Jobs are kept.

Pure: no I/O, no clock, no randomness. Times in epoch seconds. Source: Kubernetes `pkg/controller/cronjob/utils.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, tzinfo
from typing import NamedTuple

from bridgehead.objects.batch import CronJob, Job
from bridgehead.objects.meta import is_condition_true
from bridgehead.objects.schedules import Schedule, parse_schedule, parse_zone
from bridgehead.objects.times import parse_time

MANY_MISSED = 100  # starts; from there on the clock or the controller was probably stopped


class Times(NamedTuple):
    """`due`: the last time that has come and has no Job yet, None if none has. `next_in`: seconds until the next one.

    A time longer ago than `startingDeadlineSeconds` is not due. `many_missed`: more than 100 times have come.
    """

    due: float | None
    next_in: float | None
    many_missed: bool = False


def schedule_of(cron_job: CronJob) -> tuple[Schedule, tzinfo]:
    """Return the schedule and its time zone. Raises ValueError."""
    zone = parse_zone(cron_job.spec.time_zone) if cron_job.spec.time_zone else UTC
    return parse_schedule(cron_job.spec.schedule), zone


def plan_times(cron_job: CronJob, schedule: Schedule, zone: tzinfo, now: float) -> Times:
    """Return what is due."""
    spec, status = cron_job.spec, cron_job.status
    earliest = parse_time(status.last_schedule_time or cron_job.metadata.creation_timestamp or "")
    deadline = spec.starting_deadline_seconds
    if deadline is not None:
        earliest = max(earliest, now - deadline)
    due, missed = None, 0
    # A status is what its writers make of it: also a time in the future, after which no year of a calendar may come.
    moment = schedule.next_after(earliest, zone) if earliest < now else None
    while moment is not None and moment <= now and missed <= MANY_MISSED:
        due, missed = moment, missed + 1
        moment = schedule.next_after(moment, zone)
    if missed > MANY_MISSED:
        due = _last_before(schedule, zone, now)
    following = schedule.next_after(now, zone)
    return Times(
        due,
        None if following is None else following - now,
        many_missed=missed > MANY_MISSED,
    )


def _last_before(schedule: Schedule, zone: tzinfo, now: float) -> float | None:
    """Return the last time that is not after `now`, by bisection from a year ago."""
    low, high = now - 366 * 24 * 3600.0, now
    found = None
    while high - low > 1:  # invariant: no time of the schedule is in (high, now]
        middle = (low + high) / 2
        moment = schedule.next_after(middle, zone)
        if moment is not None and moment <= now:
            found, low = moment, moment
        else:
            high = middle
    return found


def job_name(cron_job: CronJob, due: float) -> str:
    """Return the name of the Job for a time; the same time always has the same name."""
    return f"{cron_job.metadata.name}-{int(due) // 60}"


def surplus_jobs(cron_job: CronJob, jobs: Iterable[Job]) -> list[Job]:
    """Return the finished Jobs that exceed the limits of the history, oldest first."""
    finished = sorted((job for job in jobs if job.is_finished), key=_start_of)
    surplus: list[Job] = []
    for kind, limit in (
        ("Complete", cron_job.spec.successful_jobs_history_limit),
        ("Failed", cron_job.spec.failed_jobs_history_limit),
    ):
        of_kind = [job for job in finished if is_condition_true(job.status.conditions, kind)]
        surplus += of_kind[: max(0, len(of_kind) - limit)]
    return surplus


def _start_of(job: Job) -> tuple[str, str]:
    return job.status.start_time or "~", job.metadata.name
