"""The CronJob controller: creates Jobs at the times of a schedule.

Started by `manager`; watches CronJobs and Jobs. Source: Kubernetes "CronJob", `pkg/controller/cronjob`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import AlreadyExists, ClientError, NotFound
from bridgehead.client.workqueue import Done, Outcome, Requeue
from bridgehead.controllers.adoption import controller_reference
from bridgehead.controllers.conditions import status_patch
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.workloads.expectations import owner_of
from bridgehead.controllers.workloads.owned import OwnedIndex
from bridgehead.controllers.workloads.pod_control import is_namespace_terminating
from bridgehead.objects.batch import CronJob, CronJobStatus, Job
from bridgehead.objects.kinds import CRON_JOBS, JOBS
from bridgehead.objects.meta import ObjectKey, ObjectReference, is_condition_true
from bridgehead.objects.times import format_time

from .cron_plan import job_name, plan_times, schedule_of, surplus_jobs

WORKERS: Final = 2
_TIMESTAMP: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController:
    """Creates and deletes Jobs. `clock` returns seconds since the epoch."""

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
        self._cron_jobs = informers.get(CRON_JOBS)
        self._jobs = informers.get(JOBS)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("cronjobs")
        self._owned = OwnedIndex(self._jobs)
        self._latest = Latest(self._cron_jobs)
        self._cron_jobs.on_change(self._cron_job_changed)
        self._jobs.on_change(self._job_changed)

    async def run(self) -> None:
        await self._cron_jobs.wait_synced()
        await self._jobs.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    def _cron_job_changed(self, old: CronJob | None, new: CronJob | None) -> None:
        if new is not None:
            self._queue.add(new.key)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        for job in (old, new):
            if job is not None and (owner := owner_of(CRON_JOBS, job)) is not None:
                self._queue.add(owner)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Create the Job that is due, delete surplus ones, and write the status. Raises ClientError."""
        cron_job = self._latest.get(key)
        if cron_job is None or cron_job.metadata.deletion_timestamp is not None:
            return Done()
        jobs = self._owned.of(cron_job.metadata.uid)
        status = await self._follow(cron_job, jobs)
        await self._clean(cron_job, jobs)
        outcome: Outcome = Done()
        if not cron_job.spec.suspend:
            status, outcome = await self._start(cron_job, jobs, status)
        patch = status_patch(cron_job.status, status)
        if patch is not None:
            await self._latest.patch_status(self._client, cron_job, {"status": patch})
        return outcome

    async def _follow(self, cron_job: CronJob, jobs: Sequence[Job]) -> CronJobStatus:
        """Return the status after the present state of the Jobs; record Events for those that ended. Raises
        ClientError."""
        status = cron_job.status
        by_uid = {job.metadata.uid: job for job in jobs}
        known = {reference.uid for reference in status.active}
        active = []
        for reference in status.active:
            job = by_uid.get(reference.uid) or await self._find(cron_job, reference)
            if job is None:
                message = f"Active job went missing: {reference.name}"
                self._recorder.record(cron_job, type="Normal", reason="MissingJob", message=message)
            elif job.is_finished:
                kind = "Complete" if is_condition_true(job.status.conditions, "Complete") else "Failed"
                message = f"Saw completed job: {reference.name}, condition: {kind}"
                self._recorder.record(cron_job, type="Normal", reason="SawCompletedJob", message=message)
            else:
                active.append(reference)
        for job in jobs:
            if job.metadata.uid not in known and not job.is_finished:  # as by `kubectl create job --from=cronjob/NAME`
                message = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
                self._recorder.record(cron_job, type="Warning", reason="UnexpectedJob", message=message)
        ends = [job.status.completion_time for job in jobs if job.status.completion_time]
        last = max(filter(None, (status.last_successful_time, *ends)), default=None)
        return msgspec.structs.replace(status, active=tuple(active), last_successful_time=last)

    async def _find(self, cron_job: CronJob, reference: ObjectReference) -> Job | None:
        """Return an active Job that the informer lacks: it may have been created a moment ago. Raises ClientError."""
        try:
            job = await self._client.get(JOBS, reference.name, cron_job.metadata.namespace)
        except NotFound:
            return None
        return job if job.metadata.uid == reference.uid else None

    async def _clean(self, cron_job: CronJob, jobs: Sequence[Job]) -> None:
        for job in surplus_jobs(cron_job, jobs):
            await self._delete(cron_job, job)

    async def _delete(self, cron_job: CronJob, job: Job) -> None:
        """Delete a Job and its pods. Record an Event, also for a failure. Raises ClientError."""
        name = job.metadata.name
        if job.metadata.deletion_timestamp is not None:
            return
        try:
            await self._client.delete(
                JOBS, name, job.metadata.namespace, uid=job.metadata.uid, propagation_policy="Background"
            )
        except NotFound:
            return
        except ClientError as error:
            self._recorder.record(cron_job, type="Warning", reason="FailedDelete", message=f"Deleted job: {error}")
            raise
        self._recorder.record(cron_job, type="Normal", reason="SuccessfulDelete", message=f"Deleted job {name}")

    async def _start(
        self, cron_job: CronJob, jobs: Sequence[Job], status: CronJobStatus
    ) -> tuple[CronJobStatus, Outcome]:
        """Create the Job that is due. Return the status after it, and when the next one is due. Raises ClientError."""
        now = self._clock()

        def warn(reason: str, message: str) -> None:
            self._recorder.record(cron_job, type="Warning", reason=reason, message=message)

        try:
            schedule, zone = schedule_of(cron_job)
        except ValueError as error:
            is_zone = cron_job.spec.time_zone is not None and "time zone" in str(error)
            warn("UnknownTimeZone" if is_zone else "UnparseableSchedule", f"invalid schedule: {error}")
            return status, Done()
        times = plan_times(cron_job, schedule, zone, now)
        wait: Outcome = Done() if times.next_in is None else Requeue(times.next_in + 0.01)
        if times.due is None and times.next_in is None:
            why = "time difference between two schedules is less than 1 second"  # robfig/cron's time for "never"
            warn("InvalidSchedule", f"invalid schedule: {cron_job.spec.schedule} : {why}")
        if times.many_missed:
            warn("TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or"
                 " check clock skew")  # fmt: skip
        if times.due is None:
            return status, wait
        if status.active and cron_job.spec.concurrency_policy == "Forbid":
            self._recorder.record(
                cron_job,
                type="Normal",
                reason="JobAlreadyActive",
                message="Not starting job because prior execution is running and concurrency policy is Forbid",
            )
            return status, wait
        if cron_job.spec.concurrency_policy == "Replace":
            active = {reference.uid for reference in status.active}
            for job in jobs:
                if job.metadata.uid in active:
                    await self._delete(cron_job, job)
            status = msgspec.structs.replace(status, active=())
        created = await self._create(cron_job, times.due)
        known = {reference.uid for reference in status.active}
        if created is not None and created.metadata.uid not in known and not created.is_finished:
            status = msgspec.structs.replace(status, active=(*status.active, _reference(created)))
        return msgspec.structs.replace(status, last_schedule_time=format_time(times.due)), wait

    async def _create(self, cron_job: CronJob, due: float) -> Job | None:
        """Create the Job of a time, or find the one that an earlier attempt created. Raises ClientError."""
        template, name = cron_job.spec.job_template, job_name(cron_job, due)
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": cron_job.metadata.namespace,
            "labels": template.metadata.labels,
            "annotations": template.metadata.annotations | {_TIMESTAMP: format_time(due)},
            "ownerReferences": [msgspec.to_builtins(controller_reference(CRON_JOBS, cron_job))],
        }
        try:
            job = await self._client.create(JOBS, {"metadata": metadata, "spec": template.spec})
        except AlreadyExists:
            job = await self._client.get(JOBS, name, cron_job.metadata.namespace)
            owner = job.metadata.controller
            return job if owner is not None and owner.uid == cron_job.metadata.uid else None
        except ClientError as error:
            if not is_namespace_terminating(error):
                message = f"Error creating job: {error}"
                self._recorder.record(cron_job, type="Warning", reason="FailedCreate", message=message)
            raise
        self._recorder.record(cron_job, type="Normal", reason="SuccessfulCreate", message=f"Created job {name}")
        return job


def _reference(job: Job) -> ObjectReference:
    meta = job.metadata
    return ObjectReference(
        api_version=JOBS.api_version,
        kind=JOBS.name,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
