"""The provisioner of directories: whom it serves, on which node, what it creates and deletes."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.controllers.volumes.host_path_plan import (
    choose_node,
    cleaner_pod,
    is_to_delete,
    is_to_release,
    new_volume,
    node_of,
    refusal,
    wants_expansion,
    wants_volume,
)
from bridgehead.objects.storage import HOST_PATH_PROVISIONER, PROVISIONED_BY, SELECTED_NODE, PersistentVolume

from .sample_volumes import claim, node, on_host, storage_class, volume

OURS = storage_class(HOST_PATH_PROVISIONER)
DELAYED = storage_class(HOST_PATH_PROVISIONER, "WaitForFirstConsumer")
CHOSEN = {SELECTED_NODE: "b"}


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (claim(), OURS, True),
        (claim(), None, False),
        (claim(), storage_class(), False),
        (claim(volumeName="x"), OURS, False),
        (claim(phase="Bound"), OURS, False),
        (claim(), DELAYED, False),
        (claim(annotations=CHOSEN), DELAYED, True),
    ],
)
def test_claims_that_get_a_directory(given, kind, expected) -> None:
    assert wants_volume(given, kind) is expected


def test_refusals() -> None:
    assert refusal(claim()) == ""
    assert refusal(claim(volumeMode="Block")) == "bridgehead.io/host-path does not provision block volumes"
    assert refusal(claim(selector={"matchLabels": {"a": "b"}})) == "claim Selector is not supported"
    source = {"kind": "PersistentVolumeClaim", "name": "other"}
    assert refusal(claim(dataSource=source)) == "bridgehead.io/host-path does not fill volumes from a data source"


def made(name: str = "data", host: str = "a", phase: str = "Bound") -> PersistentVolume:
    found = msgspec.convert(new_volume(claim(name), DELAYED, host), PersistentVolume)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, phase=phase))


def test_a_volume_is_a_directory_of_one_node() -> None:
    found = made()
    assert found.metadata.annotations == {PROVISIONED_BY: HOST_PATH_PROVISIONER}
    assert found.spec.host_path is not None
    assert found.spec.host_path.path == "/var/lib/bridgehead/volumes/pvc-uid-data"
    assert found.spec.claim_ref is not None
    assert found.spec.claim_ref.uid == "uid-data"
    assert (found.size, found.spec.persistent_volume_reclaim_policy) == ("1Gi", "Delete")
    assert node_of(found) == "a"
    assert node_of(volume()) == ""


def test_the_node_with_the_fewest_volumes_is_chosen() -> None:
    nodes = [node("a"), node("b"), node("c", unschedulable=True)]
    assert choose_node(claim(), OURS, nodes, [made("x", "a"), volume()]) == "b"
    assert choose_node(claim(), OURS, nodes, []) == "a"
    assert choose_node(claim(annotations=CHOSEN), OURS, nodes, [made("x", "b")]) == "b"
    assert choose_node(claim(), OURS, [], []) == ""
    assert choose_node(claim(), storage_class(allowedTopologies=[on_host("b"), on_host("c")]), nodes, []) == "b"
    assert choose_node(claim(), storage_class(allowedTopologies=[on_host("c")]), nodes, []) == ""


def test_released_volumes_are_deleted_on_their_node() -> None:
    released = made(phase="Released")
    assert is_to_delete(released)
    assert not is_to_delete(made())
    assert not is_to_delete(volume(phase="Released", persistentVolumeReclaimPolicy="Delete"))
    pod = cleaner_pod(released, "a")
    assert pod["spec"]["nodeName"] == "a"
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["rm", "-rf", "/volumes/pvc-uid-data"]
    assert container["imagePullPolicy"] == "Never"


@pytest.mark.parametrize(
    ("phase", "policy", "provisioner", "goes_at_once"),
    [
        ("Bound", "Delete", HOST_PATH_PROVISIONER, False),
        ("Released", "Delete", HOST_PATH_PROVISIONER, False),
        ("Released", "Retain", HOST_PATH_PROVISIONER, True),
        ("Available", "Delete", HOST_PATH_PROVISIONER, True),
        ("Released", "Retain", "example.com/disk", False),
    ],
)
def test_a_deleted_volume_waits_for_its_directory(
    phase: str, policy: str, provisioner: str, goes_at_once: bool
) -> None:
    def of(metadata: dict[str, str]) -> PersistentVolume:
        annotations = {PROVISIONED_BY: provisioner}
        all_of_it = {"annotations": annotations, **metadata}
        return volume(phase=phase, metadata=all_of_it, persistentVolumeReclaimPolicy=policy)

    deleted = of({"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert is_to_release(deleted) is goes_at_once
    assert not is_to_release(of({}))
    assert is_to_delete(deleted) is is_to_delete(of({}))


def test_expansion_changes_numbers() -> None:
    grown = claim(size="2Gi", phase="Bound")
    assert wants_expansion(grown, made())
    done = msgspec.structs.replace(grown, status=msgspec.structs.replace(grown.status, capacity={"storage": "2Gi"}))
    assert not wants_expansion(done, made())
    assert not wants_expansion(grown, volume())
    assert not wants_expansion(grown, None)
