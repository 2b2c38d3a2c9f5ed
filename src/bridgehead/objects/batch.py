"""The batch/v1 kinds: Job, CronJob.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from typing import Any

from .meta import Condition, LabelSelector, Object, ObjectMeta, ObjectReference, Part, PodTemplate


class ExitCodeRequirement(Part, frozen=True, kw_only=True):
    operator: str = "In"
    values: tuple[int, ...] = ()
    container_name: str | None = None


class PodConditionPattern(Part, frozen=True, kw_only=True):
    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(Part, frozen=True, kw_only=True):
    """`action`: FailJob, FailIndex, Ignore or Count."""

    action: str = "Count"
    on_exit_codes: ExitCodeRequirement | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class PodFailurePolicy(Part, frozen=True, kw_only=True):
    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Part, frozen=True, kw_only=True):
    """`succeeded_indexes`: ranges such as `1,3-5`."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Part, frozen=True, kw_only=True):
    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Part, frozen=True, kw_only=True):
    parallelism: int = 1
    completions: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()
    ttl_seconds_after_finished: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    pod_replacement_policy: str = "TerminatingOrFailed"
    managed_by: str | None = None

    @property
    def is_indexed(self) -> bool:
        return self.completion_mode == "Indexed"


class UncountedTerminatedPods(Part, frozen=True, kw_only=True):
    """UIDs of pods that have ended, are not in the counters yet, and may still have the tracking finalizer."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Part, frozen=True, kw_only=True):
    """`completed_indexes`, `failed_indexes`: ranges such as `1,3-5`."""

    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(Object, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def is_finished(self) -> bool:
        """Whether the job has the condition Complete or Failed."""
        return any(c.type in ("Complete", "Failed") and c.status == "True" for c in self.status.conditions)


class JobTemplate(Part, frozen=True, kw_only=True):
    """The template of a CronJob's Jobs. `spec` is untyped so that no field is lost."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class CronJobSpec(Part, frozen=True, kw_only=True):
    """`concurrency_policy`: Allow, Forbid or Replace."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: JobTemplate = JobTemplate()
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1


class CronJobStatus(Part, frozen=True, kw_only=True):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object, frozen=True, kw_only=True):
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
