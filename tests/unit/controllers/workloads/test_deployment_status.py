"""Status of a Deployment in each situation, with the texts of Kubernetes."""

from typing import Any

import msgspec
import pytest

from bridgehead.controllers.conditions import status_patch, with_condition
from bridgehead.controllers.workloads.deployment_status import (
    compute_status,
    condition,
    deadline_in,
    paused_conditions,
    rollout_status,
)
from bridgehead.objects.apps import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
)
from bridgehead.objects.batch import JobStatus, UncountedTerminatedPods
from bridgehead.objects.meta import Condition, ObjectMeta, find_condition
from bridgehead.objects.times import format_time

NOW = 2_000_000_000.0


def deployment(replicas: int = 2, deadline: int = 600, *, paused: bool = False, **status: Any) -> Deployment:
    return Deployment(
        metadata=ObjectMeta(name="web", generation=4),
        spec=DeploymentSpec(replicas=replicas, progress_deadline_seconds=deadline, paused=paused),
        status=DeploymentStatus(**status),
    )


def replica_set(name: str, replicas: int, available: int, conditions: tuple[Condition, ...] = ()) -> ReplicaSet:
    return ReplicaSet(
        metadata=ObjectMeta(name=name, uid=name),
        spec=ReplicaSetSpec(replicas=replicas),
        status=ReplicaSetStatus(
            replicas=replicas, ready_replicas=available, available_replicas=available, conditions=conditions
        ),
    )


def with_progress(owner: Deployment, reason: str, status: str = "True", age: float = 0.0) -> Deployment:
    found = condition("Progressing", status, reason, "", NOW - age)
    return msgspec.structs.replace(owner, status=msgspec.structs.replace(owner.status, conditions=(found,)))


def test_the_status_counts_replicas() -> None:
    new, old = replica_set("new", 2, 1), replica_set("old", 1, 1)
    status = compute_status(deployment(), new, [old, new], NOW)
    assert msgspec.structs.replace(status, conditions=()) == DeploymentStatus(
        observed_generation=4,
        replicas=3,
        updated_replicas=2,
        ready_replicas=2,
        available_replicas=2,
        unavailable_replicas=1,
    )


def test_terminating_replicas_are_shown_when_each_replica_set_has_their_number() -> None:
    def terminating(*numbers: int | None) -> int | None:
        every = [
            ReplicaSet(metadata=ObjectMeta(name=str(n)), status=ReplicaSetStatus(terminating_replicas=n))
            for n in numbers
        ]
        return compute_status(deployment(), None, every, NOW).terminating_replicas

    assert terminating() == 0
    assert terminating(0, 2, 1) == 3
    assert terminating(0, None) is None


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (3, ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")),
        (2, ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")),
    ],
)
def test_availability_follows_min_available(available: int, expected: tuple[str, str, str]) -> None:
    new = replica_set("new", 4, available)
    found = find_condition(compute_status(deployment(4), new, [new], NOW).conditions, "Available")
    assert found is not None
    assert (found.status, found.reason, found.message) == expected


def progress(owner: Deployment, new: ReplicaSet | None, *olds: ReplicaSet) -> tuple[str, str, str] | None:
    every = [*olds, new] if new else [*olds]
    found = find_condition(rollout_status(owner, new, every, NOW).conditions, "Progressing")
    return (found.status, found.reason, found.message) if found else None


def test_the_progressing_condition_follows_a_rollout() -> None:
    new = replica_set("web-1", 2, 0)
    owner = with_progress(deployment(), "NewReplicaSetCreated")
    assert progress(owner, new) == ("True", "ReplicaSetUpdated", 'ReplicaSet "web-1" is progressing.')
    done = replica_set("web-1", 2, 2)
    assert progress(owner, done) == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "web-1" has successfully progressed.',
    )


def test_an_idle_rollout_fails_only_after_the_deadline() -> None:
    stuck = replica_set("web-1", 2, 0)
    owner = deployment(deadline=60, observed_generation=4, replicas=2, updated_replicas=2)
    young = with_progress(owner, "ReplicaSetUpdated", age=59)
    assert progress(young, stuck) == ("True", "ReplicaSetUpdated", "")
    assert deadline_in(young, young.status, NOW) == 1
    old = with_progress(owner, "ReplicaSetUpdated", age=60)
    assert progress(old, stuck) == (
        "False",
        "ProgressDeadlineExceeded",
        'ReplicaSet "web-1" has timed out progressing.',
    )
    assert deadline_in(old, old.status, NOW) == 0


def test_without_a_deadline_there_is_no_progressing_condition() -> None:
    new = replica_set("web-1", 2, 0)
    assert progress(with_progress(deployment(deadline=2**31 - 1), "ReplicaSetUpdated"), new) is None


def test_a_complete_rollout_has_no_deadline() -> None:
    owner = with_progress(deployment(), "NewReplicaSetAvailable", age=10_000)
    assert deadline_in(owner, owner.status, NOW) is None
    assert progress(owner, replica_set("web-1", 2, 1)) == ("True", "NewReplicaSetAvailable", "")


def test_progress_moves_the_update_time_but_not_the_transition_time() -> None:
    owner = with_progress(deployment(), "ReplicaSetUpdated", age=100)
    found = find_condition(
        rollout_status(owner, replica_set("web-1", 2, 1), [replica_set("web-1", 2, 1)], NOW).conditions, "Progressing"
    )
    assert found is not None
    assert (found.last_update_time, found.last_transition_time) == (format_time(NOW), format_time(NOW - 100))


def test_failures_of_the_new_replica_set_come_first_and_are_cleared() -> None:
    def failing(message: str) -> tuple[Condition, ...]:
        return (Condition(type="ReplicaFailure", status="True", reason="FailedCreate", message=message),)

    old, new = replica_set("web-1", 1, 1, failing("old")), replica_set("web-2", 2, 1, failing("new"))
    status = rollout_status(deployment(), new, [old, new], NOW)
    found = find_condition(status.conditions, "ReplicaFailure")
    assert found is not None
    assert found.message == "new"
    later = msgspec.structs.replace(deployment(), status=status)
    healthy = rollout_status(later, replica_set("web-2", 2, 2), [replica_set("web-2", 2, 2)], NOW)
    assert find_condition(healthy.conditions, "ReplicaFailure") is None


def test_pause_and_resume_set_conditions() -> None:
    paused = with_progress(deployment(paused=True), "ReplicaSetUpdated")
    (found,) = paused_conditions(paused, NOW)
    assert (found.status, found.reason, found.message) == (
        "Unknown",
        "DeploymentPaused",
        "Deployment is paused",
    )
    resumed = with_progress(deployment(), "DeploymentPaused", "Unknown")
    (found,) = paused_conditions(resumed, NOW)
    assert (found.status, found.reason, found.message) == (
        "Unknown",
        "DeploymentResumed",
        "Deployment is resumed",
    )
    late = with_progress(deployment(paused=True), "ProgressDeadlineExceeded", "False")
    assert paused_conditions(late, NOW) == late.status.conditions


def test_writing_an_unchanged_status_is_no_write() -> None:
    new = replica_set("web-1", 2, 2)
    owner = with_progress(deployment(), "ReplicaSetUpdated")
    status = rollout_status(owner, new, [new], NOW)
    owner = msgspec.structs.replace(owner, status=status)
    assert status_patch(status, rollout_status(owner, new, [new], NOW + 1000)) is None


def test_a_condition_keeps_its_transition_time() -> None:
    old = Condition(type="A", status="True", reason="x", message="m", last_transition_time="t1")
    same = Condition(type="A", status="True", reason="x", message="other", last_transition_time="t2")
    reason = Condition(type="A", status="True", reason="y", message="m", last_transition_time="t2")
    status = Condition(type="A", status="False", reason="y", message="m", last_transition_time="t2")
    assert with_condition((old,), same) == (old,)
    assert with_condition((old,), reason)[0].last_transition_time == "t1"
    assert with_condition((old,), status)[0].last_transition_time == "t2"


def test_patches_contain_the_difference() -> None:
    before = ReplicaSetStatus(replicas=3, ready_replicas=2, available_replicas=2)
    after = ReplicaSetStatus(replicas=3, ready_replicas=3)
    assert status_patch(before, after) == {"readyReplicas": 3, "availableReplicas": None}
    assert status_patch(before, before) is None
    assert status_patch(ReplicaSetStatus(replicas=1), ReplicaSetStatus(), always=("replicas",)) == {"replicas": 0}


def test_patches_of_objects_in_a_status_remove_what_is_gone() -> None:
    def uncounted(*failed: str) -> JobStatus:
        return JobStatus(failed=1, uncounted_terminated_pods=UncountedTerminatedPods(failed=failed))

    assert status_patch(uncounted("a"), uncounted()) == {"uncountedTerminatedPods": {"failed": None}}
    assert status_patch(uncounted("a"), uncounted("a", "b")) == {"uncountedTerminatedPods": {"failed": ("a", "b")}}
    assert status_patch(uncounted("a"), JobStatus(failed=1)) == {"uncountedTerminatedPods": None}
    assert status_patch(JobStatus(failed=1), uncounted()) == {"uncountedTerminatedPods": {}}
