"""Rights to the parts of a ResourceClaim's status, and to devices as an administrator."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.http.user import NODE_NAME, User
from tests.unit.apiserver.world import Answer, World, open_world

URL = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "system:serviceaccount:default:driver"
DRIVER = User(ACCOUNT, extra={NODE_NAME: ("node1",)})
ELSEWHERE = User(ACCOUNT, extra={NODE_NAME: ("node2",)})
SPEC = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT = {"request": "one", "driver": "gpu.example.com", "pool": "pool", "device": "gpu1"}
DEVICE = {key: RESULT[key] for key in ("driver", "pool", "device")}
ALLOCATION = {
    "devices": {"results": [RESULT]},
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1"]}]}]
    },
}


@pytest.fixture
async def world():
    async with open_world() as world:
        await world.create(URL, {"metadata": {"name": "a"}, "spec": SPEC})
        await allow(world, "writers", "resourceclaims/status", "get patch update")
        yield world


async def allow(world: World, name: str, resource: str, verbs: str) -> None:
    rule = {"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs.split()}
    await world.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ACCOUNT}]
    await world.create(
        f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    )


async def write(world: World, status: Any, user: User | None = None) -> Answer:
    headers = {"content-type": "application/merge-patch+json"}
    given: dict[str, Any] = {} if user is None else {"user": user}
    return await world.call("PATCH", f"{URL}/a/status", {"status": status}, headers=headers, **given)


async def test_allocation_needs_the_right_to_bind(world):
    status = {"allocation": ALLOCATION}
    refused = (
        'ResourceClaim.resource.k8s.io "a" is invalid: status: Forbidden: changing status.allocation or '
        'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: '
        f'resourceclaims.resource.k8s.io is forbidden: User "{ACCOUNT}" cannot patch resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )
    answer = await write(world, status, DRIVER)
    assert (answer.status, answer.json["message"]) == (422, refused)
    assert (await write(world, {}, DRIVER)).status == 200
    await allow(world, "binders", "resourceclaims/binding", "patch")
    assert (await write(world, status, DRIVER)).status == 200
    changed = (await world.call("GET", f"{URL}/a/status", user=DRIVER)).json
    del changed["status"]["allocation"]
    answer = await world.call("PUT", f"{URL}/a/status", changed, user=DRIVER)
    assert 'verb="update" permission' in answer.json["message"]


async def test_the_status_of_devices_needs_the_right_of_their_driver_on_the_node(world):
    await write(world, {"allocation": ALLOCATION})
    for user, verbs in ((DRIVER, "associated-node:patch arbitrary-node:patch"), (ELSEWHERE, "arbitrary-node:patch")):
        answer = await write(world, {"devices": [DEVICE]}, user)
        assert answer.status == 422
        assert f'changing status.devices requires resource="resourceclaims/driver", verb="[{verbs}]"' in str(
            answer.json
        )
    await allow(world, "drivers", "resourceclaims/driver", "associated-node:patch")
    assert (await write(world, {"devices": [DEVICE]}, ELSEWHERE)).status == 422
    assert (await write(world, {"devices": [DEVICE]}, DRIVER)).status == 200
    await allow(world, "controllers", "resourceclaims/driver", "arbitrary-node:patch")
    assert (await write(world, {"devices": []}, ELSEWHERE)).status == 200


async def test_deallocation_forgets_the_status_of_the_devices(world):
    await write(world, {"allocation": ALLOCATION, "devices": [DEVICE]})
    answer = await write(world, {"allocation": None})
    assert (answer.status, answer.json["status"]) == (200, {})


async def test_administrators_use_devices_in_namespaces_for_it(world):
    spec = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}]}}
    claim = {"metadata": {"name": "b"}, "spec": spec}
    templates = URL.replace("resourceclaims", "resourceclaimtemplates")
    refused = (
        'ResourceClaim.resource.k8s.io "b" is invalid: spec.devices.requests[0].adminAccess: Forbidden: admin access '
        "to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    answer = await world.call("POST", URL, claim)
    assert (answer.status, answer.json["message"]) == (422, refused)
    assert (await world.call("POST", templates, {**claim, "spec": {"spec": spec}})).status == 422
    granted = {"allocation": {"devices": {"results": [{**RESULT, "adminAccess": True}]}}}
    assert "status.allocation.devices.results[0].adminAccess" in (await write(world, granted)).json["message"]
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await world.patch("/api/v1/namespaces/default", {"metadata": {"labels": labels}})
    await world.create(URL, claim)
    await world.create(templates, {**claim, "spec": {"spec": spec}})
    assert (await write(world, granted)).status == 200
