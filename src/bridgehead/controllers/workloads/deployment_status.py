"""Status of a Deployment. Reasons and messages are those of Kubernetes v1.36. Called by `deployment_controller`.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.controllers.conditions import REPLICA_FAILURE, with_condition, without_condition
from bridgehead.objects.apps import Deployment, DeploymentStatus, ReplicaSet
from bridgehead.objects.meta import Condition, find_condition
from bridgehead.objects.times import format_time, parse_time

from .rollout import limits, total_available, total_replicas

AVAILABLE = "Available"
PROGRESSING = "Progressing"

NEW_REPLICA_SET_CREATED = "NewReplicaSetCreated"
FOUND_NEW_REPLICA_SET = "FoundNewReplicaSet"
REPLICA_SET_UPDATED = "ReplicaSetUpdated"
NEW_REPLICA_SET_AVAILABLE = "NewReplicaSetAvailable"
REPLICA_SET_CREATE_ERROR = "ReplicaSetCreateError"
PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"

# The value of `progressDeadlineSeconds` that means no deadline.
NO_DEADLINE = 2**31 - 1


def condition(type: str, status: str, reason: str, message: str, now: float) -> Condition:
    moment = format_time(now)
    return Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_update_time=moment,
        last_transition_time=moment,
    )


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds != NO_DEADLINE


def with_progress(deployment: Deployment, status: str, reason: str, message: str, now: float) -> tuple[Condition, ...]:
    """Return the conditions of `deployment` with this Progressing condition; unchanged without a deadline."""
    conditions = deployment.status.conditions
    if not has_deadline(deployment):
        return conditions
    return with_condition(conditions, condition(PROGRESSING, status, reason, message, now))


def paused_conditions(deployment: Deployment, now: float) -> tuple[Condition, ...]:
    """Return the conditions after a pause or a resume. The time of a pause does not count for the deadline."""
    current = find_condition(deployment.status.conditions, PROGRESSING)
    if current is not None and current.reason == PROGRESS_DEADLINE_EXCEEDED:
        return deployment.status.conditions
    was_paused = current is not None and current.reason == PAUSED
    if deployment.spec.paused and not was_paused:
        return with_progress(deployment, "Unknown", PAUSED, "Deployment is paused", now)
    if not deployment.spec.paused and was_paused:
        return with_progress(deployment, "Unknown", RESUMED, "Deployment is resumed", now)
    return deployment.status.conditions


def compute_status(
    deployment: Deployment, new: ReplicaSet | None, every: Sequence[ReplicaSet], now: float
) -> DeploymentStatus:
    """Return the status with counts and the Available condition. `every`: all replica sets, with `new`."""
    available = total_available(every)
    minimum = deployment.spec.replicas - limits(deployment)[1]
    if available >= minimum:
        availability = condition(
            AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now
        )
    else:
        availability = condition(
            AVAILABLE, "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now
        )
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(rs.status.replicas for rs in every),
        updated_replicas=new.status.replicas if new else 0,
        ready_replicas=sum(rs.status.ready_replicas for rs in every),
        available_replicas=available,
        unavailable_replicas=max(0, total_replicas(every) - available),
        collision_count=deployment.status.collision_count,
        terminating_replicas=_terminating_replicas(every),
        conditions=with_condition(deployment.status.conditions, availability),
    )


def _terminating_replicas(every: Sequence[ReplicaSet]) -> int | None:
    """Return how many pods are being deleted; None until each replica set's status has their number."""
    total = 0
    for rs in every:
        if rs.status.terminating_replicas is None:
            return None
        total += rs.status.terminating_replicas
    return total


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether the rollout is complete: all replicas are updated and available, and no old one is left."""
    desired = deployment.spec.replicas
    return (
        status.updated_replicas == desired
        and status.replicas == desired
        and status.available_replicas == desired
        and status.observed_generation >= deployment.metadata.generation
    )


def is_progressing(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether the rollout has progressed since the status was last written."""
    before = deployment.status
    return (
        status.updated_replicas > before.updated_replicas
        or status.replicas - status.updated_replicas < before.replicas - before.updated_replicas
        or status.ready_replicas > before.ready_replicas
        or status.available_replicas > before.available_replicas
    )


def deadline_in(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """Return the seconds until the rollout exceeds its deadline, 0 afterwards; None without a running deadline."""
    current = find_condition(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or current is None or deployment.spec.paused:
        return None
    if current.reason == NEW_REPLICA_SET_AVAILABLE:
        return None
    if current.reason == PROGRESS_DEADLINE_EXCEEDED:
        return 0.0
    since = parse_time(current.last_update_time) if current.last_update_time else now
    return max(0.0, since + deployment.spec.progress_deadline_seconds - now)


def rollout_status(
    deployment: Deployment, new: ReplicaSet | None, every: Sequence[ReplicaSet], now: float
) -> DeploymentStatus:
    """Return the status during a rollout: counts and the conditions Available, Progressing and ReplicaFailure."""
    status = compute_status(deployment, new, every, now)
    conditions = status.conditions
    current = find_condition(conditions, PROGRESSING)
    if not has_deadline(deployment):
        conditions = without_condition(conditions, PROGRESSING)
    elif not (
        status.replicas == status.updated_replicas
        and current is not None
        and current.reason == NEW_REPLICA_SET_AVAILABLE
    ):
        conditions = _with_rollout_progress(deployment, new, status, now)
    failure = _replica_failure(new, every)
    conditions = with_condition(conditions, failure) if failure else without_condition(conditions, REPLICA_FAILURE)
    return msgspec.structs.replace(status, conditions=conditions)


def _with_rollout_progress(
    deployment: Deployment, new: ReplicaSet | None, status: DeploymentStatus, now: float
) -> tuple[Condition, ...]:
    who = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    current = find_condition(status.conditions, PROGRESSING)
    if is_complete(deployment, status):
        message = f"{who} has successfully progressed."
        wanted = condition(PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, message, now)
        return with_condition(status.conditions, wanted)
    if is_progressing(deployment, status):
        wanted = condition(PROGRESSING, "True", REPLICA_SET_UPDATED, f"{who} is progressing.", now)
        if current is not None and current.status == "True":
            wanted = msgspec.structs.replace(wanted, last_transition_time=current.last_transition_time)
        # Replaced even with the same status and reason: the deadline counts from the update time.
        return (*without_condition(status.conditions, PROGRESSING), wanted)
    if deadline_in(deployment, status, now) == 0.0:
        wanted = condition(PROGRESSING, "False", PROGRESS_DEADLINE_EXCEEDED, f"{who} has timed out progressing.", now)
        return with_condition(status.conditions, wanted)
    return status.conditions


def _replica_failure(new: ReplicaSet | None, every: Sequence[ReplicaSet]) -> Condition | None:
    """Return the ReplicaFailure condition of the Deployment: that of the new replica set, else of another one."""
    ordered = [new, *every] if new else every
    for rs in ordered:
        failure = find_condition(rs.status.conditions, REPLICA_FAILURE)
        if failure is not None:
            return msgspec.structs.replace(failure, last_update_time=failure.last_transition_time)
    return None
