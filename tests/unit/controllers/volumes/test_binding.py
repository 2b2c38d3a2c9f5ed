"""The volume that a claim gets, and the steps of claims and volumes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.controllers.volumes.binding_plan import (
    BIND_COMPLETED,
    VolumeStep,
    choose_default_class,
    plan_claim,
    plan_volume,
    refuse_deletion,
)
from bridgehead.controllers.volumes.matching import find_volume, mismatch
from bridgehead.controllers.volumes.volumes_in_use import CLAIM_FINALIZER, is_bound, is_used, without_finalizer
from bridgehead.objects.meta import ObjectMeta
from bridgehead.objects.storage import BETA_CLASS, PROVISIONED_BY, SELECTED_NODE, PersistentVolume, StorageClass

from .sample_volumes import claim, node, on_node, pod_with, reference, storage_class, volume


def test_a_claim_without_a_class_gets_the_default_one_later() -> None:
    def default(name: str, created: str, value: str = "true") -> StorageClass:
        annotations = {"storageclass.kubernetes.io/is-default-class": value}
        metadata = {"name": name, "annotations": annotations, "creationTimestamp": created}
        return storage_class(metadata=metadata)

    old, new, no = (
        default("a", "2026-01-01T00:00:00Z"),
        default("c", "2026-01-02T00:00:00Z"),
        default("d", "2026-01-03T00:00:00Z", "false"),
    )
    assert choose_default_class([old, new, default("b", "2026-01-02T00:00:00Z"), no]) == "b"
    assert choose_default_class([no]) == ""
    without = claim(storageClassName=None)
    assert plan_claim(without, {}, None, (), "b").storage_class == "b"
    assert plan_claim(without, {}, None, ()).event is not None
    # An empty class is a choice, too.
    for chosen in (claim(storageClassName=""), claim(storageClassName=None, annotations={BETA_CLASS: ""})):
        assert plan_claim(chosen, {}, None, (), "b").storage_class == ""
    fitting = volume(storageClassName="")
    assert plan_claim(without, {"pv": fitting}, None, (), "b").bind_to == fitting


def test_only_host_paths_for_tests_are_deleted() -> None:
    assert refuse_deletion(volume(hostPath={"path": "/tmp/data"})) == ""
    refused = "host_path deleter only supports /tmp/.+ but received provided "
    for path in ("/mnt/data", "/tmp", "/tmp/"):
        assert refuse_deletion(volume(hostPath={"path": path})) == refused + path
    local = refuse_deletion(volume(local={"path": "/tmp/data"}))
    assert local == 'error getting deleter volume plugin for volume "pv": no deletable volume plugin matched'


VOLUMES: dict[str, Any] = {
    "fits": (volume(), {}, "pv"),
    "the smallest": ([volume("a", size="3Gi"), volume("b", size="2Gi"), volume("c", size="2048Mi")], {}, "b"),
    "too small": (volume(size="500Mi"), {}, None),
    "another class": (volume(storageClassName="slow"), {}, None),
    "the class of the annotation": (
        volume(storageClassName="slow"), {"annotations": {BETA_CLASS: "slow"}}, "pv"),
    "another mode": (volume(volumeMode="Block"), {}, None),
    "fewer access modes": (volume(), {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}, None),
    "the fewest access modes": (
        [volume("a", accessModes=["ReadWriteOnce", "ReadWriteMany"]), volume("b", size="9Gi")], {}, "b"),
    "reserved with other access modes": (
        volume(claimRef=reference(uid="")), {"accessModes": ["ReadWriteMany"]}, None),
    "not available": (volume(phase="Released"), {}, None),
    "being deleted": (volume(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), {}, None),
    "of another claim": (volume(claimRef=reference("other")), {}, None),
    "reserved": ([volume("a"), volume("b", phase="Pending", claimRef=reference(uid=""))], {}, "b"),
    "only reserved": (
        [volume("big", size="9Gi", storageClassName="", claimRef=reference(uid=""))], {}, "big"),
    "labels": (volume(metadata={"labels": {"a": "b"}}), {"selector": {"matchLabels": {"a": "b"}}}, "pv"),
    "other labels": (volume(), {"selector": {"matchLabels": {"a": "b"}}}, None),
}  # fmt: skip


def name_of(found: PersistentVolume | None) -> str | None:
    return None if found is None else found.metadata.name


@pytest.mark.parametrize("case", VOLUMES)
def test_matching(case) -> None:
    volumes, spec, expected = VOLUMES[case]
    given = volumes if isinstance(volumes, list) else [volumes]
    assert name_of(find_volume(given, claim(**spec))) == expected


def test_matching_on_a_node() -> None:
    volumes = [volume("a", nodeAffinity=on_node("x")), volume("b", nodeAffinity=on_node("y"), size="2Gi")]
    assert [name_of(find_volume(volumes, claim(), node(name))) for name in "xyz"] == ["a", "b", None]
    reserved = volume("r", claimRef=reference(), nodeAffinity=on_node("x"))
    assert [name_of(find_volume([reserved, volume()], claim(), node(name))) for name in "xy"] == ["r", None]
    # The scheduler compares sizes only.
    assert name_of(find_volume(VOLUMES["the fewest access modes"][0], claim(), node("x"))) == "a"
    # The scheduler alone gives a volume to a claim that waits, unless it is reserved.
    assert name_of(find_volume([volume()], claim(), only_reserved=True)) is None
    assert name_of(find_volume([reserved], claim(), only_reserved=True)) == "r"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (volume(), ""),
        (volume(size="1Mi"), "requested PV is too small"),
        (volume(storageClassName=""), "storageClassName does not match"),
        (volume(volumeMode="Block"), "incompatible volumeMode"),
        (volume(accessModes=["ReadOnlyMany"]), "incompatible accessMode"),
    ],
)
def test_a_requested_volume_must_satisfy_the_claim(given, reason) -> None:
    assert mismatch(given, claim()) == reason
    step = plan_claim(claim(volumeName="pv"), {"pv": given}, None, ())
    if reason:
        assert step.event is not None
        assert (step.event.reason, step.event.message) == (
            "VolumeMismatch", f'Cannot bind to requested volume "pv": {reason}')  # fmt: skip
    else:
        assert step.bind_to == given


NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
CHOSEN: dict[str, Any] = {"annotations": {SELECTED_NODE: "x"}}
PENDING = {
    "no class": (claim(storageClassName=""), None, (), "FailedBinding", NO_CLASS),
    "missing class": (claim(), None, (), "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'),
    "no provisioner": (
        claim(), storage_class("kubernetes.io/no-provisioner"), (), "ProvisioningFailed",
        "no volume plugin matched name: kubernetes.io/no-provisioner"),
    "no pod": (
        claim(), storage_class(mode="WaitForFirstConsumer"), (), "WaitForFirstConsumer",
        "waiting for first consumer to be created before binding"),
    "a pod": (
        claim(), storage_class(mode="WaitForFirstConsumer"), ("p", "q"), "WaitForPodScheduled",
        "waiting for pod p,q to be scheduled"),
    "taken": (
        claim(volumeName="taken"), None, (), "FailedBinding", 'volume "taken" already bound to a different claim.'),
}  # fmt: skip


@pytest.mark.parametrize("case", PENDING)
def test_a_claim_that_has_to_wait(case) -> None:
    waiting, kind, pods, reason, message = PENDING[case]
    step = plan_claim(waiting, {"taken": volume("taken", claimRef=reference("other"))}, kind, pods)
    assert (step.bind_to, step.phase, step.provisioner) == (None, "Pending", "")
    assert step.event is not None
    assert (step.event.reason, step.event.message) == (reason, message)


@pytest.mark.parametrize("waiting", [claim(), claim(**CHOSEN)])
def test_a_provisioner_is_asked(waiting) -> None:
    mode = "WaitForFirstConsumer" if waiting.metadata.annotations else "Immediate"
    step = plan_claim(waiting, {}, storage_class(mode=mode), ())
    assert step.provisioner == "example.com/disk"
    assert step.event is not None
    assert step.event.message.startswith("Waiting for a volume to be created either by the external provisioner 'exa")


def test_a_missing_requested_volume_is_waited_for() -> None:
    step = plan_claim(claim(volumeName="x"), {}, None, ())
    assert (step.phase, step.event, step.bind_to) == ("Pending", None, None)
    assert plan_claim(claim(), {"pv": volume()}, None, ()).bind_to == volume()
    mine = volume("x", claimRef=reference())
    assert plan_claim(claim(volumeName="x"), {"x": mine}, None, ()).bind_to == mine


DONE = {"annotations": {BIND_COMPLETED: "yes"}, "volumeName": "pv"}


@pytest.mark.parametrize(
    ("volumes", "spec", "reason"),
    [
        ({}, DONE, "ClaimLost"),
        ({}, {**DONE, "volumeName": ""}, "ClaimLost"),
        ({"pv": volume(claimRef=reference("other"))}, DONE, "ClaimMisbound"),
        ({"pv": volume(claimRef=reference())}, DONE, None),
        ({"pv": volume()}, DONE, None),
    ],
)
def test_a_bound_claim_can_lose_its_volume(volumes, spec, reason) -> None:
    step = plan_claim(claim(**spec), volumes, None, ())
    if reason is None:
        assert step.bind_to == volumes["pv"]
        return
    assert step.phase == "Lost"
    assert step.event is not None
    assert step.event.reason == reason
    assert plan_claim(claim(**spec, phase="Lost"), volumes, None, ()).event is None  # once


DYNAMIC: dict[str, Any] = {
    "metadata": {"annotations": {PROVISIONED_BY: "x"}},
    "persistentVolumeReclaimPolicy": "Delete",
}


@pytest.mark.parametrize(
    ("given", "owner", "expected"),
    [
        (volume(), None, VolumeStep(phase="Available")),
        (volume(claimRef=reference(uid="")), claim(), VolumeStep(phase="Available")),
        (volume(claimRef=reference()), None, VolumeStep(phase="Released", reclaim=True)),
        (volume(claimRef=reference(uid="before")), claim(), VolumeStep(phase="Released", reclaim=True)),
        (volume(phase="Released", claimRef=reference()), None, VolumeStep(reclaim=True)),
        (volume(phase="Failed", claimRef=reference()), None, VolumeStep()),
        (volume(claimRef=reference()), claim(), VolumeStep()),
        (volume(claimRef=reference()), claim(volumeName="pv"), VolumeStep(phase="Bound")),
        (volume(claimRef=reference()), claim(volumeName="other"), VolumeStep(unbind=True)),
        (volume(claimRef=reference(), **DYNAMIC), claim(volumeName="x"), VolumeStep(phase="Released", reclaim=True)),
    ],
)
def test_steps_of_a_volume(given, owner, expected) -> None:
    assert plan_volume(given, owner) == expected


def test_what_is_used_stays() -> None:
    waiting = pod_with("data")
    running = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, node_name="x"))
    ended = msgspec.structs.replace(running, status=msgspec.structs.replace(running.status, phase="Succeeded"))
    assert [is_used([one]) for one in (waiting, running, ended)] == [False, True, False]
    assert not is_used([])
    assert [is_bound(volume(phase=phase)) for phase in ("Bound", "Released")] == [True, False]
    assert without_finalizer(ObjectMeta(finalizers=("a/b", CLAIM_FINALIZER)), CLAIM_FINALIZER) == ["a/b"]
