"""Times of a CronJob, and its history."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.controllers.jobs.cron_plan import job_name, plan_times, schedule_of, surplus_jobs
from bridgehead.objects.batch import CronJob, Job
from bridgehead.objects.times import format_time, parse_time

NOW = 1_800_000_030.0  # half a minute after a full one


def cron_job(
    schedule: str = "*/5 * * * *", created: float = NOW - 3600, last: float | None = None, **spec: Any
) -> CronJob:
    document: dict[str, Any] = {
        "metadata": {"name": "report", "creationTimestamp": format_time(created)},
        "spec": {"schedule": schedule, **spec},
        "status": {"lastScheduleTime": format_time(last)} if last is not None else {},
    }
    return msgspec.convert(document, CronJob)


def times(made: CronJob):
    return plan_times(made, *schedule_of(made), NOW)


def test_the_last_time_that_has_come_is_due():
    found = times(cron_job())
    assert found.due == 1_800_000_000
    assert found.next_in == 270
    assert times(cron_job(last=1_800_000_000)).due is None
    assert times(cron_job(created=NOW - 10)).due is None


def test_a_start_that_is_too_late():
    assert times(cron_job(startingDeadlineSeconds=10)).due is None
    assert times(cron_job(startingDeadlineSeconds=31)).due == 1_800_000_000


def test_many_missed_times():
    found = times(cron_job("* * * * *", created=NOW - 30 * 24 * 3600))
    assert found.many_missed
    assert found.due == 1_800_000_000


@pytest.mark.parametrize("schedule", ["* * * * *", "0 0 30 2 *", "@every 1s"])
@pytest.mark.parametrize("deadline", [None, 2**63 - 1])
def test_a_status_in_the_last_year_of_the_calendar_makes_nothing_due(schedule, deadline):
    made = cron_job(schedule, last=parse_time("9999-12-31T23:59:59Z"), startingDeadlineSeconds=deadline)
    assert times(made).due is None


def test_the_name_depends_on_the_time_only():
    assert job_name(cron_job(), 1_800_000_000.0) == "report-30000000"


def test_the_oldest_jobs_beyond_the_limits_are_surplus():
    def job(name: str, kind: str, age: int) -> Job:
        status = {"startTime": format_time(NOW - age), "conditions": [{"type": kind, "status": "True"}]}
        return msgspec.convert({"metadata": {"name": name}, "status": status if kind else {}}, Job)

    jobs = [
        job("a", "Complete", 30),
        job("b", "Complete", 20),
        job("c", "Failed", 10),
        job("d", "Failed", 5),
        job("e", "", 1),
    ]
    made = cron_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    assert [one.metadata.name for one in surplus_jobs(made, jobs)] == ["a", "c", "d"]
