"""The largest numbers that the API accepts: plans compare them, and make nothing of that size."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import uvloop

from bridgehead.client import Done, Outcome, WorkQueue
from bridgehead.controllers.autoscaling.scaling_limits import ScalingRecord, limit_replicas
from bridgehead.controllers.disruption.budget_status import compute_status, expectation
from bridgehead.controllers.jobs.cron_plan import surplus_jobs
from bridgehead.controllers.jobs.job_pods import choose_surplus
from bridgehead.controllers.jobs.job_verdicts import deadline_in, expiry_in, judge, wanted_active
from bridgehead.controllers.jobs.progress import count_pods, missing_indexes
from bridgehead.controllers.nodes.eviction_time import eviction_time
from bridgehead.controllers.workloads.deletion_order import choose_victims
from bridgehead.controllers.workloads.history import surplus_revisions
from bridgehead.controllers.workloads.rollout import plan_cleanup
from bridgehead.objects.apps import ControllerRevision, Deployment, ReplicaSet, StatefulSet
from bridgehead.objects.autoscaling import HorizontalPodAutoscalerBehavior
from bridgehead.objects.batch import CronJob, Job
from bridgehead.objects.core import Pod, Taint, Toleration
from bridgehead.objects.policy import PodDisruptionBudget
from bridgehead.objects.times import format_time

INT32, INT64 = 2**31 - 1, 2**63 - 1
NOW = 1_800_000_000.0


def make(kind: type[Any], status: dict[str, Any] | None = None, **spec: Any) -> Any:
    metadata = {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": format_time(NOW - 60)}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, kind)


def job(**spec: Any) -> Job:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    made: Job = make(Job, {"startTime": format_time(NOW - 60)}, template=template, **spec)
    return made


def first_pods_of_a_job() -> tuple[int, list[int], list[Pod], object]:
    largest = job(
        completions=INT32,
        parallelism=INT32,
        completionMode="Indexed",
        backoffLimit=INT32,
        backoffLimitPerIndex=INT32,
        maxFailedIndexes=INT32,
        activeDeadlineSeconds=INT64,
    )
    progress = count_pods(largest, [])
    indexes = missing_indexes(largest, progress, [], 3)
    return (
        wanted_active(largest, progress),
        indexes,
        choose_surplus(largest, [], -3, NOW),
        judge(largest, progress, NOW),
    )


def scaled_by_an_autoscaler() -> int:
    policy = {"policies": [{"type": "Percent", "value": INT32, "periodSeconds": 1800}]}
    behavior = msgspec.convert({"scaleUp": policy, "scaleDown": policy}, HorizontalPodAutoscalerBehavior)
    return limit_replicas(ScalingRecord(), behavior, 1, INT32, INT32 - 1, INT32, NOW).replicas


def allowed_by_a_budget(**spec: Any) -> int:
    budget = make(PodDisruptionBudget, selector={}, **spec)
    pods = [make(Pod)]
    expected, desired = expectation(budget.spec, len(pods), INT32)
    return compute_status(budget, pods, expected, desired, NOW).disruptions_allowed


def ended() -> Job:
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": format_time(NOW)}
    made: Job = make(Job, {"conditions": [condition]}, ttlSecondsAfterFinished=INT32)
    return made


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (first_pods_of_a_job, (INT32, [0, 1, 2], [], None)),
        (lambda: deadline_in(job(activeDeadlineSeconds=INT64), NOW), NOW - 60 + INT64 - NOW),
        (lambda: expiry_in(ended(), NOW), float(INT32)),
        (
            lambda: surplus_jobs(
                make(CronJob, successfulJobsHistoryLimit=INT32, failedJobsHistoryLimit=INT32), [ended()]
            ),
            [],
        ),
        (lambda: plan_cleanup(make(Deployment, revisionHistoryLimit=INT32 - 1), [make(ReplicaSet, replicas=0)]), []),
        (lambda: surplus_revisions(make(StatefulSet, revisionHistoryLimit=INT32), [ControllerRevision()], bool), []),
        (lambda: len(choose_victims([make(Pod)], [], INT32, NOW)), 1),
        (scaled_by_an_autoscaler, INT32),
        (lambda: allowed_by_a_budget(maxUnavailable=INT32), 0),
        (lambda: allowed_by_a_budget(minAvailable=INT32), 0),
        (
            lambda: eviction_time(
                [Taint(key="k", effect="NoExecute")], [Toleration(operator="Exists", toleration_seconds=INT64)], NOW
            ),
            NOW + INT64,
        ),
    ],
)
def test_plans_compare_the_largest_numbers(plan: Callable[[], Any], expected: Any) -> None:
    tracemalloc.start()
    try:
        assert plan() == expected
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("seconds", [float(INT32), float(INT64)])
def test_a_key_may_wait_for_ever_without_delaying_others(run: Callable[..., Any], seconds: float) -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue("t")
        seen: list[str] = []
        reconciled = asyncio.Event()

        async def reconcile(key: str) -> Outcome:
            seen.append(key)
            reconciled.set()
            return Done()

        queue.add_after("late", seconds)
        queue.add("now")
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            work = tasks.create_task(queue.run(reconcile))
            await reconciled.wait()
            work.cancel()
        return seen

    assert run(main()) == ["now"]
