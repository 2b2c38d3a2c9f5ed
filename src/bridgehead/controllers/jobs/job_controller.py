"""The Job controller: runs pods until enough of them have succeeded.

Started by `manager`; watches Jobs and Pods. Source: Kubernetes "Jobs", `pkg/controller/job/job_controller.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.client.workqueue import Done, Outcome, Requeue, Retry
from bridgehead.controllers.adoption import Claimer, adopters
from bridgehead.controllers.conditions import status_patch, with_condition
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.workloads.bursts import BURST, Bursts
from bridgehead.controllers.workloads.expectations import EXPIRY, Expectations, observe_pod_change, owner_of
from bridgehead.controllers.workloads.owned import OwnedIndex
from bridgehead.controllers.workloads.pod_control import (
    REQUESTS_AT_ONCE,
    PodControl,
    is_namespace_terminating,
    slow_start,
)
from bridgehead.objects.batch import Job, JobStatus
from bridgehead.objects.core import Pod
from bridgehead.objects.indexes import format_intervals
from bridgehead.objects.kinds import JOBS, PODS
from bridgehead.objects.meta import Condition, ObjectKey, is_condition_true
from bridgehead.objects.selectors import compile_selector
from bridgehead.objects.times import format_time

from .job_pods import choose_surplus, pod_template
from .job_verdicts import Verdict, backoff_in, deadline_in, expiry_in, indexes_in_time, judge, wanted_active
from .progress import FAILURE_TARGET, TRACKING_FINALIZER, Progress, count_pods, is_tracked, missing_indexes

WORKERS: Final = 5
_RELEASE = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}


class JobController:
    """Creates, counts and deletes pods. `clock` returns seconds since the epoch."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._jobs = informers.get(JOBS)
        self._pods = informers.get(PODS)
        self._control = PodControl(client, recorder, JOBS)
        self._claimer = Claimer(client, JOBS, PODS)
        self._expectations = Expectations(clock)
        self._bursts = Bursts(clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("jobs")
        self._orphans: WorkQueue[ObjectKey] = WorkQueue("pods of deleted jobs")
        self._owned = OwnedIndex(self._pods)
        self._latest = Latest(self._jobs)
        self._released: set[str] = set()  # uids of pods whose finalizer is gone, before the informer shows it
        self._jobs.on_change(self._job_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._jobs.wait_synced()
        await self._pods.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue.run(self.reconcile, workers=WORKERS))
            tasks.create_task(self._orphans.run(self._release_orphan, workers=1))

    # --- Handlers --------------------------------------------------------------------------------

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        if new is None and old is not None:
            self._expectations.forget(old.key)
            for pod in self._owned.of(old.metadata.uid):
                self._orphans.add(pod.key)
        if (changed := new or old) is not None:
            self._queue.add(changed.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for owner in observe_pod_change(self._expectations, JOBS, old, new):
            self._queue.add(owner)
        for adopter in adopters(self._jobs.items(), old, new):
            self._queue.add(adopter)
        if new is None and old is not None:
            self._released.discard(old.metadata.uid)
        elif new is not None and is_tracked(new) and self._job_of(new) is None:
            self._orphans.add(new.key)

    def _job_of(self, pod: Pod) -> Job | None:
        """Return the Job that manages the pod; None if there is none, or it is another one of the same name."""
        key = owner_of(JOBS, pod)
        job = self._jobs.get(key) if key is not None else None
        reference = pod.metadata.controller
        return job if job is not None and reference is not None and reference.uid == job.metadata.uid else None

    async def _release_orphan(self, key: ObjectKey) -> Outcome:
        """Remove the finalizer of a pod whose Job is gone, so that the pod can go, too."""
        await self._jobs.wait_synced()
        pod = self._pods.get(key)
        if pod is not None and is_tracked(pod) and self._job_of(pod) is None:
            await self._release([pod])
        return Done()

    # --- Reconciling ------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Create, count and delete pods of one Job, and write its status. Raises ClientError."""
        job = self._latest.get(key)
        if job is None:
            self._bursts.forget(key)
        if job is None or job.spec.managed_by not in (None, "kubernetes.io/job-controller"):
            return Done()
        now = self._clock()
        if job.is_finished:
            return await self._expire(job, now)
        may_act = self._expectations.met(key)
        pods = await self._claimer.claim(job, compile_selector(job.spec.selector), self._owned.candidates(job))
        progress = count_pods(job, [self._as_released(pod) for pod in pods])
        verdict = judge(job, progress, now)
        failure: ClientError | None = None
        wait: float | None = None
        if verdict is not None or (job.spec.suspend and may_act):
            is_failing = verdict is not None and verdict.type == FAILURE_TARGET
            failure = await self._delete(job, progress.active, are_failures=is_failing)
            progress.terminating += progress.active if failure is None else []
            progress.active, progress.ready = [], 0
        elif may_act and job.metadata.deletion_timestamp is None:
            failure, wait = await self._scale(job, progress, now)
        await self._write_status(job, progress, verdict, now)
        await self._release(progress.to_release)
        if failure is not None:
            return Retry(str(failure))
        waits = [seconds for seconds in (wait, self._bursts.wait(key), deadline_in(job, now)) if seconds]
        if not may_act:
            waits.append(EXPIRY)
        return Requeue(min(waits)) if waits else Done()

    def _as_released(self, pod: Pod) -> Pod:
        """Return the pod as it is since the finalizer was removed, although the informer may not show it yet."""
        if pod.metadata.uid not in self._released or not is_tracked(pod):
            return pod
        kept = tuple(name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER)
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, finalizers=kept))

    async def _scale(self, job: Job, progress: Progress, now: float) -> tuple[ClientError | None, float | None]:
        """Create or delete pods; return an error, and after how many seconds more can be created."""
        missing = wanted_active(job, progress) - len(progress.active)
        if surplus := choose_surplus(job, progress.active, -missing, now):
            return await self._delete(job, surplus), None
        if job.spec.pod_replacement_policy == "Failed":
            missing -= len(progress.terminating)
        if missing <= 0:
            return None, None
        indexes, wait = self._choose_indexes(job, progress, min(missing, self._bursts.room(job.key)), now)
        return await self._create(job, progress, indexes) if indexes else None, wait or None

    @staticmethod
    def _choose_indexes(job: Job, progress: Progress, count: int, now: float) -> tuple[Sequence[int | None], float]:
        """Return the indexes of the pods to create now (None for a pod without one), and the seconds until others."""
        if job.spec.backoff_limit_per_index is None and (wait := backoff_in(progress, now)):
            return [], wait
        if not job.spec.is_indexed:
            return [None] * count, 0.0
        holders = progress.active
        if job.spec.pod_replacement_policy == "Failed":
            holders = [*holders, *progress.terminating]
        indexes = missing_indexes(job, progress, holders, count)
        return (indexes, 0.0) if job.spec.backoff_limit_per_index is None else indexes_in_time(indexes, progress, now)

    async def _create(self, job: Job, progress: Progress, indexes: Sequence[int | None]) -> ClientError | None:
        self._expectations.expect(job.key, creations=len(indexes))

        async def create(number: int) -> None:
            index = indexes[number]
            failures = progress.failures_by_index.get(index, []) if index is not None else []
            pod = await self._control.create(job, *pod_template(job, index, failures))
            progress.active.append(pod)

        began = self._clock()
        successes, failure = await slow_start(len(indexes), create)
        self._expectations.created(job.key, len(indexes) - successes)
        self._bursts.record(job.key, successes, began)
        return None if failure is not None and is_namespace_terminating(failure) else failure

    async def _delete(self, job: Job, pods: Iterable[Pod], *, are_failures: bool = False) -> ClientError | None:
        """Delete pods, and take their finalizer first unless they are to count as failures."""
        victims = list(pods)[:BURST]
        if not are_failures:
            await self._release(victims)
        self._expectations.expect(job.key, deletions=[pod.metadata.uid for pod in victims])
        return await self._control.delete_all(
            job, victims, lambda pod: self._expectations.deleted(job.key, pod.metadata.uid)
        )

    async def _release(self, pods: Sequence[Pod]) -> None:
        """Remove the tracking finalizer. Raises ClientError."""

        async def release(pod: Pod) -> None:
            with contextlib.suppress(NotFound):
                await self._client.patch(PODS, pod.metadata.name, pod.metadata.namespace, _RELEASE, type="strategic")
            self._released.add(pod.metadata.uid)

        tracked = [pod for pod in pods if is_tracked(pod)]
        for begin in range(0, len(tracked), REQUESTS_AT_ONCE):
            await asyncio.gather(*map(release, tracked[begin : begin + REQUESTS_AT_ONCE]))
        owners = {owner for pod in tracked if (owner := owner_of(JOBS, pod)) is not None}
        for owner in owners:
            self._queue.add(owner)  # the counters have to follow

    async def _expire(self, job: Job, now: float) -> Outcome:
        """Release what is left of a finished Job's pods, and delete the Job when its time is over."""
        await self._release([pod for pod in self._owned.of(job.metadata.uid) if is_tracked(self._as_released(pod))])
        wait = expiry_in(job, now)
        if wait is None or job.metadata.deletion_timestamp is not None:
            return Done()
        if wait:
            return Requeue(wait)
        await self._client.delete(
            JOBS, job.metadata.name, job.metadata.namespace, uid=job.metadata.uid, propagation_policy="Foreground"
        )
        return Done()

    # --- Status -----------------------------------------------------------------------------------------

    async def _write_status(self, job: Job, progress: Progress, verdict: Verdict | None, now: float) -> None:
        wanted = self._status(job, progress, verdict, now)
        patch = status_patch(job.status, wanted)
        if patch is None:
            return
        await self._latest.patch_status(self._client, job, {"status": patch})
        self._record_changes(job, wanted)

    def _status(self, job: Job, progress: Progress, verdict: Verdict | None, now: float) -> JobStatus:
        before, moment = job.status, format_time(now)
        conditions = before.conditions
        start_time, completion_time = before.start_time, before.completion_time

        def holds(type: str, status: str, reason: str, message: str) -> tuple[Condition, ...]:
            condition = Condition(
                type=type, status=status, reason=reason, message=message, last_probe_time=moment,
                last_transition_time=moment,
            )  # fmt: skip
            return with_condition(conditions, condition)

        is_suspended = is_condition_true(conditions, "Suspended")
        if job.spec.suspend and verdict is None:
            start_time = None
            if not is_suspended:
                conditions = holds("Suspended", "True", "JobSuspended", "Job suspended")
        elif is_suspended:
            conditions = holds("Suspended", "False", "JobResumed", "Job resumed")
            start_time = moment  # the deadline begins anew
        if start_time is None and not job.spec.suspend:
            start_time = moment
        if verdict is not None:
            conditions = holds(verdict.type, "True", verdict.reason, verdict.message)
            is_counted = not progress.uncounted.succeeded and not progress.uncounted.failed and not progress.to_release
            if is_counted and not progress.active and not progress.terminating:
                final = "Complete" if verdict.type == "SuccessCriteriaMet" else "Failed"
                conditions = holds(final, "True", verdict.reason, verdict.message)
                completion_time = moment if final == "Complete" else None
        indexed = job.spec.is_indexed
        return JobStatus(
            conditions=conditions,
            start_time=start_time,
            completion_time=completion_time,
            active=len(progress.active),
            ready=progress.ready,
            terminating=len(progress.terminating),
            succeeded=progress.succeeded,
            failed=progress.failed,
            completed_indexes=format_intervals(progress.completed_indexes) if indexed else "",
            failed_indexes=(
                format_intervals(progress.failed_indexes) if job.spec.backoff_limit_per_index is not None else None
            ),
            uncounted_terminated_pods=progress.uncounted,
        )

    def _record_changes(self, job: Job, status: JobStatus) -> None:
        """Record Events for the conditions that a Job has got."""
        new = [
            condition
            for condition in status.conditions
            if condition.status == "True" and not is_condition_true(job.status.conditions, condition.type)
        ]
        for condition in new:
            match condition.type:
                case "Complete":
                    self._recorder.record(job, type="Normal", reason="Completed", message="Job completed")
                case "Failed":
                    self._recorder.record(job, type="Warning", reason=condition.reason, message=condition.message)
                case "Suspended":
                    self._recorder.record(job, type="Normal", reason="Suspended", message="Job suspended")
        if is_condition_true(job.status.conditions, "Suspended") and not is_condition_true(
            status.conditions, "Suspended"
        ):
            self._recorder.record(job, type="Normal", reason="Resumed", message="Job resumed")
