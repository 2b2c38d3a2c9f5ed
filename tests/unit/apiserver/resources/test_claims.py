"""Writes of the status of claims and of VolumeAttachments, and the sources of a claim's data."""

import pytest

from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()
CLAIMS = Steps(TABLE["persistentvolumeclaims"])
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a"}
POPULATOR = {"apiGroup": "a.io", "kind": "Source", "name": "a"}
REMOTE = {**SNAPSHOT, "namespace": "other"}
STATUSES = ", ".join(
    f'"{status}"'
    for status in (
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    )
)


def claim(**spec):
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "a", "namespace": "default"}, "spec": size | spec}


def sources(obj):
    return obj["spec"].get("dataSource"), obj["spec"].get("dataSourceRef")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (None, None)),
        ({"dataSource": SNAPSHOT}, (SNAPSHOT, SNAPSHOT)),
        ({"dataSourceRef": POPULATOR}, (POPULATOR, POPULATOR)),
        ({"dataSource": POPULATOR}, (None, None)),
        ({"dataSourceRef": REMOTE}, (None, None)),
    ],
)
def test_both_fields_name_the_source_of_a_new_claim(given, expected):
    assert sources(CLAIMS.create(claim(**given))) == expected


def test_an_update_may_leave_out_one_of_the_fields():
    made = CLAIMS.create(claim(dataSourceRef=POPULATOR))
    assert sources(CLAIMS.update(made, claim(dataSource=POPULATOR))) == (POPULATOR, POPULATOR)
    assert sources(CLAIMS.update(CLAIMS.create(claim()), claim(dataSource=POPULATOR))) == (None, None)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("{capacity: {storage: 1Gi}, allocatedResources: {storage: 2Gi}, "
         "allocatedResourceStatuses: {storage: NodeResizePending, a.io/b: NodeResizeInProgress}}", []),
        ("{capacity: {storage: '-1.5'}}", [
            "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"]),
        ("{allocatedResourceStatuses: {storage: Soon}}", [
            f'status.allocatedResourceStatus: Unsupported value: "storage": supported values: {STATUSES}']),
        ("{allocatedResourceStatuses: {cpu: NodeResizePending}, allocatedResources: {cpu: 1, storage: '-2'}}", [
            'status.allocatedResourceStatus: Unsupported value: "cpu": supported values: "storage"',
            'status.allocatedResources: Unsupported value: "cpu": supported values: "storage"',
            "status.allocatedResources[storage]: Invalid value: -2: must be a valid resource quantity"]),
    ],
)  # fmt: skip
def test_the_progress_of_an_expansion_is_validated(status, expected):
    made = CLAIMS.create(claim())
    assert CLAIMS.update_refusal(made, {**made, "status": from_yaml(status)}, "status") == expected


def test_errors_of_an_attachment_are_validated():
    steps = Steps(TABLE["volumeattachments.storage.k8s.io"])
    spec = {"attacher": "a.io", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    made = steps.create({"metadata": {"name": "a"}, "spec": spec})
    status = {"attached": False, "attachError": {"message": "x" * 1025}, "detachError": {"errorCode": -1}}
    assert steps.update_refusal(made, {**made, "status": status}, "status") == [
        "status.attachError.message: Too long: may not be more than 262144 bytes",
        "status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
    ]
