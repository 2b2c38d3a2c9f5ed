"""`bridgehead balancer --cleanup`: fields that a balancer or a speaker wrote are removed, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.balancer.controller.service_patches import CONDITION, EIP_FINALIZER, SERVICE_FINALIZER
from bridgehead.balancer.controller.written_fields import (
    eip_metadata_patch,
    is_written,
    service_metadata_patch,
    service_status_patch,
    status_removal,
)

POOL = "metallb.io/ip-allocated-from-pool"
EIP = "eip.openelb.kubesphere.io/v1alpha2"
Json = dict[str, Any]


def written(manager: str, fields: Json) -> Json:
    return {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}


def service(*entries: Json, finalizers: tuple[str, ...] = (SERVICE_FINALIZER, "mine")) -> Json:
    metadata = {
        "resourceVersion": "7",
        "finalizers": list(finalizers),
        "labels": {EIP: "eip", "app": "web"},
        "annotations": {POOL: "pool"},
        "managedFields": list(entries),
    }
    conditions = [{"type": CONDITION}, {"type": "Mine"}]
    status = {"loadBalancer": {"ingress": [{"ip": "10.0.0.10"}]}, "conditions": conditions}
    return {"metadata": metadata, "status": status}


ADDRESS = written(
    "bridgehead-balancer",
    {"f:status": {"f:loadBalancer": {"f:ingress": {}}}, "f:metadata": {"f:annotations": {f"f:{POOL}": {}}}},
)
OPENELB_FIELDS = {"f:metadata": {"f:finalizers": {f'v:"{SERVICE_FINALIZER}"': {}}, "f:labels": {f"f:{EIP}": {}}}}
OPENELB = written("bridgehead-balancer", OPENELB_FIELDS)


def test_the_address_and_the_condition_go() -> None:
    assert service_status_patch(service(ADDRESS), keeps_address=False) == {
        "metadata": {"resourceVersion": "7", "annotations": {POOL: None}},
        "status": {"loadBalancer": None, "conditions": [{"type": "Mine"}]},
    }


def test_an_address_that_metallb_has_taken_over_stays() -> None:
    assert service_status_patch(service(ADDRESS), keeps_address=True) == {
        "metadata": {"resourceVersion": "7"},
        "status": {"conditions": [{"type": "Mine"}]},
    }


def test_the_address_of_another_controller_stays() -> None:
    theirs = service(ADDRESS | {"manager": "controller"})
    theirs["status"]["conditions"] = []
    assert service_status_patch(theirs, keeps_address=False) is None


def test_openelbs_finalizer_and_label_go_if_they_are_ours() -> None:
    assert service_metadata_patch(service(OPENELB)) == {
        "metadata": {"resourceVersion": "7", "finalizers": ["mine"], "labels": {EIP: None}}
    }
    alone = service(OPENELB, finalizers=(SERVICE_FINALIZER,))
    assert service_metadata_patch(alone)["metadata"]["finalizers"] is None  # type: ignore[index]
    assert service_metadata_patch(service(OPENELB | {"manager": "openelb-controller"})) is None


def test_eips() -> None:
    fields = {"f:metadata": {"f:finalizers": {f'v:"{EIP_FINALIZER}"': {}}}}
    eip = {"metadata": {"finalizers": [EIP_FINALIZER], "managedFields": [written("bridgehead-balancer", fields)]}}
    assert eip_metadata_patch(eip) == {"metadata": {"finalizers": None, "resourceVersion": ""}}
    assert eip_metadata_patch({"metadata": {}}) is None


@pytest.mark.parametrize("manager", ["bridgehead-balancer", "metallb-speaker"])
def test_statuses(manager: str) -> None:
    pool = {"metadata": {"managedFields": [written(manager, {"f:status": {"f:a": {}}})]}, "status": {"a": 1}}
    assert status_removal(pool) == {"status": None, "metadata": {"resourceVersion": ""}}
    assert status_removal(pool | {"status": {}}) is None
    assert status_removal({"metadata": {}, "status": {"a": 1}}) is None


def test_unusual_managed_fields() -> None:
    assert not is_written({})
    assert not is_written({"metadata": {"managedFields": None}})
    assert not is_written({"metadata": {"managedFields": [{"manager": "bridgehead-balancer"}]}}, "f:status")
    leaf = written("bridgehead-balancer", {"f:status": {}})
    assert is_written({"metadata": {"managedFields": [leaf]}})
    assert not is_written({"metadata": {"managedFields": [leaf]}}, "f:status", "f:a", "f:b")
