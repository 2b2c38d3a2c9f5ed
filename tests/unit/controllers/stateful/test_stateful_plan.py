"""Steps of a StatefulSet: order, scaling, updates, identities, owners of claims, status."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest

from bridgehead.controllers.stateful.identity import (
    HASH_LABEL,
    INDEX_LABEL,
    POD_NAME_LABEL,
    REVISION_LABEL,
    new_claims,
    new_pod,
    ordinal_of,
)
from bridgehead.controllers.stateful.retention import is_contested, is_stale, wanted_owners
from bridgehead.controllers.stateful.stateful_plan import plan_step, uses_old_revision
from bridgehead.controllers.stateful.stateful_status import compute_status
from bridgehead.controllers.workloads.history import new_revision
from bridgehead.objects.apps import ControllerRevision, StatefulSet
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import STATEFUL_SETS
from bridgehead.objects.meta import ObjectMeta, OwnerReference

NOW = 1_000_000.0


def stateful_set(**spec: Any) -> StatefulSet:
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "data", "emptyDir": {}}]},
    }
    claim = {
        "metadata": {"name": "data", "labels": {"tier": "x"}, "annotations": {"n": "m"}},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    default = {
        "replicas": 3,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template,
        "volumeClaimTemplates": [claim],
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
    }
    metadata = {"name": "db", "namespace": "n", "uid": "set", "generation": 4}
    return msgspec.convert({"metadata": metadata, "spec": default | spec}, StatefulSet)


def pod(ordinal: int, state: str = "ready", revision: str = "new") -> Pod:
    """A pod that is ready (since the epoch), pending, running, failed or terminating."""
    phases = {"ready": "Running", "terminating": "Running", "running": "Running", "fresh": "Running"}
    metadata: dict[str, Any] = {"name": f"db-{ordinal}", "uid": f"u{ordinal}", "labels": {REVISION_LABEL: revision}}
    if state == "terminating":
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = []
    if state in ("ready", "terminating", "fresh"):
        since = "1970-01-12T13:46:39Z" if state == "fresh" else "1970-01-01T00:00:00Z"
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    status = {"phase": phases.get(state, state.title()), "conditions": conditions}
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


def step(owner: StatefulSet, *pods: Pod, room: int = 500) -> tuple[list[int], list[str]]:
    """Return the ordinals to create and the names of the pods to delete."""
    plan = plan_step(owner, pods, "new", NOW, room)
    return plan.create, [one.metadata.name for one in plan.delete]


LARGEST = 2**31 - 1
PARALLEL = {"podManagementPolicy": "Parallel"}


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        ({}, [], ([0], [])),
        ({}, [pod(0, "pending")], ([], [])),
        ({}, [pod(0, "running")], ([], [])),
        ({}, [pod(0)], ([1], [])),
        ({"minReadySeconds": 10}, [pod(0, "fresh")], ([], [])),
        ({}, [pod(0), pod(1), pod(2)], ([], [])),
        # A missing or terminating pod stops everything behind it, and it is not created while the old one is there.
        ({}, [pod(0), pod(2)], ([1], [])),
        ({}, [pod(0), pod(1, "terminating"), pod(2)], ([], [])),
        ({}, [pod(0, "failed"), pod(1)], ([], ["db-0"])),
        ({}, [pod(0, "succeeded")], ([], ["db-0"])),
        # Scaling down begins with the highest ordinal, and waits for pods below it.
        ({"replicas": 1}, [pod(0), pod(1), pod(2)], ([], ["db-2"])),
        ({"replicas": 1}, [pod(0), pod(1), pod(2, "terminating")], ([], [])),
        ({"replicas": 1}, [pod(0), pod(1, "running"), pod(2, "running")], ([], [])),
        ({"replicas": 1}, [pod(0), pod(1), pod(2, "running")], ([], ["db-2"])),
        ({"replicas": 1}, [pod(0, "running"), pod(1)], ([], [])),
        ({"replicas": 2, "ordinals": {"start": 1}}, [pod(0), pod(1), pod(2)], ([], ["db-0"])),
        ({"ordinals": {"start": 5}}, [], ([5], [])),
        ({"replicas": 0}, [pod(0)], ([], ["db-0"])),
        ({**PARALLEL}, [pod(1, "pending")], ([0, 2], [])),
        ({**PARALLEL, "replicas": 0}, [pod(0), pod(1, "running"), pod(2, "terminating")], ([], ["db-1", "db-0"])),
    ],
)
def test_steps_of_scaling(spec, pods, expected) -> None:
    assert step(stateful_set(**spec), *pods) == expected


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **fields}}}


OLD = [pod(0, revision="old"), pod(1, revision="old"), pod(2, revision="old")]


@pytest.mark.parametrize(
    ("spec", "pods", "deleted"),
    [
        ({}, OLD, ["db-2"]),
        ({}, [*OLD[:2], pod(2)], ["db-1"]),
        ({}, [*OLD[:2], pod(2, "running")], []),
        ({"updateStrategy": {"type": "OnDelete"}}, OLD, []),
        ({"updateStrategy": {"type": "RollingUpdate"}}, OLD, ["db-2"]),
        (rolling(partition=1), [OLD[0], OLD[1], pod(2)], ["db-1"]),
        (rolling(partition=2), [OLD[0], OLD[1], pod(2)], []),
        (rolling(partition=9), OLD, []),
        (rolling(maxUnavailable=2), OLD, ["db-2", "db-1"]),
        (rolling(maxUnavailable="10%"), OLD, ["db-2"]),
        (rolling(maxUnavailable="100%"), OLD, ["db-2", "db-1", "db-0"]),
        ({**PARALLEL, **rolling(maxUnavailable=2)}, [OLD[0], OLD[1], pod(2, "running")], ["db-1"]),
        ({**PARALLEL}, [pod(0, "failed", "old"), OLD[1], OLD[2]], ["db-0"]),
        ({**PARALLEL, **rolling(maxUnavailable=4)}, [pod(0, "failed", "old"), pod(1), OLD[2]], ["db-0", "db-2"]),
        # Scaling comes before an update.
        ({"replicas": 2}, OLD, ["db-2"]),
    ],
)
def test_steps_of_an_update(spec, pods, deleted) -> None:
    assert step(stateful_set(**spec), *pods) == ([], deleted)


def test_pods_below_the_partition_are_made_of_the_old_revision() -> None:
    owner = stateful_set(**rolling(partition=2), ordinals={"start": 3})
    assert [uses_old_revision(owner, ordinal) for ordinal in (3, 4, 5)] == [True, True, False]
    assert not uses_old_revision(stateful_set(updateStrategy={"type": "OnDelete"}), 0)
    bare = stateful_set(updateStrategy={"type": "RollingUpdate"})
    counted = msgspec.structs.replace(bare, status=msgspec.structs.replace(bare.status, current_replicas=1))
    assert [uses_old_revision(counted, ordinal) for ordinal in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("db-0", 0), ("db-12", 12), ("db-01", None), ("db-x", None), ("db", None), ("web-0", None), ("db-1-2", None)],
)
def test_ordinals(name: str, ordinal: int | None) -> None:
    assert ordinal_of(stateful_set(), Pod(metadata=ObjectMeta(name=name))) == ordinal


def test_a_pod_has_a_stable_identity() -> None:
    owner = stateful_set()
    revision = msgspec.convert(new_revision(STATEFUL_SETS, owner, 1, HASH_LABEL, "abc"), ControllerRevision)
    made = new_pod(owner, revision, 1)
    assert made["metadata"]["name"] == "db-1"
    assert made["metadata"]["labels"] == {
        "app": "db",
        POD_NAME_LABEL: "db-1",
        INDEX_LABEL: "1",
        REVISION_LABEL: "db-abc",
    }
    assert (made["spec"]["hostname"], made["spec"]["subdomain"]) == ("db-1", "db")
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
    (claim,) = new_claims(owner, 1)
    assert claim["metadata"] == {
        "name": "data-db-1",
        "namespace": "n",
        "labels": {"tier": "x", "app": "db"},
        "annotations": {"n": "m"},
        "finalizers": [],
    }
    bare = stateful_set(serviceName="", volumeClaimTemplates=[], template={"spec": {"containers": []}})
    revision = msgspec.convert(new_revision(STATEFUL_SETS, bare, 1, HASH_LABEL, "abc"), ControllerRevision)
    assert new_pod(bare, revision, 0)["spec"] == {"containers": [], "hostname": "db-0"}


def owner_names(policy: dict[str, str], owners: list[OwnerReference], condemned: bool) -> list[str] | None:
    owner = stateful_set(persistentVolumeClaimRetentionPolicy=policy)
    claim = ObjectMeta(name="data-db-1", owner_references=tuple(owners))
    found = wanted_owners(owner, claim, "db-1", pod(1) if condemned else None)
    return None if found is None else [f"{one.kind}/{one.name}" for one in found]


SET = OwnerReference(
    api_version="apps/v1", kind="StatefulSet", name="db", uid="set", controller=True, block_owner_deletion=True
)
OTHER = OwnerReference(api_version="v1", kind="ConfigMap", name="x", uid="x")
OF_POD = OwnerReference(api_version="v1", kind="Pod", name="db-1", uid="u1", controller=True)
BOSS = msgspec.structs.replace(OTHER, controller=True)


@pytest.mark.parametrize(
    ("policy", "owners", "condemned", "expected"),
    [
        ({}, [], False, None),
        ({}, [OTHER, SET], False, ["ConfigMap/x"]),
        ({"whenDeleted": "Delete"}, [], False, ["StatefulSet/db"]),
        ({"whenDeleted": "Delete"}, [SET], False, None),
        ({"whenDeleted": "Delete"}, [SET], True, None),
        ({"whenDeleted": "Delete"}, [BOSS], False, None),
        ({"whenScaled": "Delete"}, [], False, None),
        ({"whenScaled": "Delete"}, [OF_POD], False, []),
        ({"whenScaled": "Delete"}, [OTHER], True, ["ConfigMap/x", "Pod/db-1"]),
        ({"whenScaled": "Delete", "whenDeleted": "Delete"}, [SET], True, ["Pod/db-1"]),
    ],
)
def test_owners_of_claims(policy, owners, condemned, expected) -> None:
    assert owner_names(policy, owners, condemned) == expected


def test_claims_of_others_and_of_earlier_pods() -> None:
    boss = ObjectMeta(owner_references=(BOSS,))
    assert is_contested(stateful_set(persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"}), boss, "db-1")
    assert not is_contested(stateful_set(), boss, "db-1")
    before = OwnerReference(api_version="v1", kind="Pod", name="db-1", uid="before")
    assert is_stale(ObjectMeta(owner_references=(before,)), "db-1")
    assert not is_stale(boss, "db-1")


def test_status_counts_pods_and_finishes_an_update() -> None:
    owner = stateful_set()
    half = compute_status(owner, [pod(0, revision="old"), pod(1), pod(2, "terminating")], "old", "new", NOW)
    assert (half.replicas, half.ready_replicas, half.available_replicas) == (3, 3, 3)
    assert (half.current_replicas, half.updated_replicas) == (1, 1)
    assert (half.current_revision, half.update_revision, half.observed_generation) == ("old", "new", 4)
    done = compute_status(owner, [pod(0), pod(1), pod(2)], "old", "new", NOW)
    assert (done.current_revision, done.current_replicas) == ("new", 3)
    waiting = compute_status(stateful_set(minReadySeconds=10), [pod(0, "fresh"), pod(1, "pending")], "old", "new", NOW)
    assert (waiting.ready_replicas, waiting.available_replicas) == (1, 0)


@pytest.mark.parametrize("start", [0, LARGEST])
@pytest.mark.parametrize(
    ("spec", "pods", "room", "created"),
    [
        (PARALLEL, [], 500, [*range(500)]),
        (PARALLEL, [0, 2], 3, [1, 3, 4]),
        (PARALLEL, [0], 0, []),
        ({}, [], 500, [0]),
        ({}, [0, 1], 500, [2]),
        ({}, [0], 0, []),
    ],
)
def test_a_step_is_bounded_by_the_pods_that_exist_and_by_the_room(start, spec, pods, room, created):
    owner = stateful_set(replicas=LARGEST, ordinals={"start": start}, **spec)
    present = [pod(start + ordinal, revision="old") for ordinal in pods]
    tracemalloc.start()
    try:
        plan = step(owner, *present, room=room)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan == ([start + ordinal for ordinal in created], [])
    assert peak < 1_000_000


def test_an_update_of_the_most_replicas_is_in_proportion_to_the_pods_that_exist():
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": LARGEST - 1, "maxUnavailable": LARGEST}}
    owner = stateful_set(replicas=LARGEST, updateStrategy=rolling, **PARALLEL)
    present = [pod(ordinal, revision="old") for ordinal in (0, LARGEST - 2, LARGEST - 1)]
    assert step(owner, *present, room=1) == ([1], [f"db-{LARGEST - 1}"])
