"""Rights to request, approve and sign certificates."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.resources.certificate_requests import csr, make_certificate, make_request
from tests.unit.apiserver.world import World, open_world

URL = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ALICE = User("alice", ("dev", "system:authenticated"), "7", {"scopes": ("a", "b")})
NODE = User("system:node:node1", ("system:nodes", "system:authenticated"))


@pytest.fixture
async def world():
    async with open_world() as world:
        yield world


async def allow(world: World, name: str, *rules: dict[str, list[str]]) -> None:
    given = [{"apiGroups": ["certificates.k8s.io"], **rule} for rule in rules]
    await world.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": given})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    await world.create(f"{RBAC}/clusterrolebindings", binding)


async def test_the_server_sets_the_user_of_a_request(world):
    await allow(world, "requesters", {"verbs": ["create"], "resources": ["certificatesigningrequests"]})
    lie = {"username": "admin", "uid": "1", "groups": ["system:masters"], "extra": {"x": ["y"]}}
    answer = await world.call("POST", URL, {"metadata": {"name": "a"}, **csr(**lie)}, user=ALICE)
    assert answer.status == 201
    spec = answer.json["spec"]
    shown = {key: spec[key] for key in lie}
    assert shown == {"username": "alice", "uid": "7", "groups": list(ALICE.groups), "extra": {"scopes": ["a", "b"]}}
    assert answer.json["status"] == {}


async def test_approval_and_signing_need_rights_for_the_signer(world):
    plural = "certificatesigningrequests"
    views = [f"{plural}/approval", f"{plural}/status"]
    await allow(world, "writers", {"verbs": ["get", "update", "patch"], "resources": views})
    await world.create(f"{URL}?fieldManager=creator", {"metadata": {"name": "a", "labels": {"a": "b"}}, **csr()})
    approval = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Tested"}]}}
    certificate = {"status": {"certificate": make_certificate()}}

    async def patch(view: str, body: dict[str, Any]) -> tuple[int, str]:
        headers = {"content-type": "application/merge-patch+json"}
        answer = await world.call("PATCH", f"{URL}/a/{view}?fieldManager=tester", body, user=ALICE, headers=headers)
        return answer.status, answer.json.get("message", "")

    for view, body, verb in (("approval", approval, "approve"), ("status", certificate, "sign")):
        refused = (
            f'{plural}.certificates.k8s.io "a" is forbidden: user not permitted to {verb} requests with signerName '
            '"example.com/signer"'
        )
        assert await patch(view, body) == (403, refused)
        rule = {"verbs": [verb], "resources": ["signers"], "resourceNames": ["example.com/*"]}
        await allow(world, verb, rule)
        assert await patch(view, body) == (200, "")
    assert (await patch("status", {"metadata": {"annotations": {"a": "b"}}}))[0] == 200
    stored = (await world.call("GET", f"{URL}/a/approval", user=ALICE)).json
    assert stored["status"]["certificate"] == make_certificate()
    (condition,) = stored["status"]["conditions"]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"] == "2026-11-21T03:48:41Z"
    owned = {
        entry.get("subresource", ""): entry["fieldsV1"].get("f:status") for entry in stored["metadata"]["managedFields"]
    }
    assert (list(owned["approval"]), owned["status"]) == (["f:conditions"], {"f:certificate": {}})


async def test_client_certificates_of_administrators_cannot_be_requested(world):
    masters = csr(request=make_request("x", "system:masters"), signerName="kubernetes.io/kube-apiserver-client")
    answer = await world.call("POST", URL, {"metadata": {"name": "a"}, **masters})
    assert (answer.status, answer.json["message"]) == (
        403,
        'certificatesigningrequests.certificates.k8s.io "a" is forbidden: use of kubernetes.io/kube-apiserver-client '
        "signer with system:masters group is not allowed",
    )
    other = csr(request=make_request("x", "system:masters"))
    assert (await world.call("POST", URL, {"metadata": {"name": "a"}, **other})).status == 201


@pytest.mark.parametrize(("common_name", "status"), [("system:node:node1", 201), ("system:node:node2", 403)])
async def test_a_node_requests_certificates_for_itself_only(world, common_name, status):
    for name, signer in (("a", "kubernetes.io/kubelet-serving"), ("b", "kubernetes.io/kube-apiserver-client-kubelet")):
        body = csr(request=make_request(common_name, "system:nodes"), signerName=signer)
        answer = await world.call("POST", URL, {"metadata": {"name": name}, **body}, user=NODE)
        assert answer.status == status
        assert status == 201 or "can only create a node CSR with CN=system:node:node1" in answer.json["message"]
    assert (await world.call("POST", URL, {"metadata": {"name": "c"}, **csr()}, user=NODE)).status == 201
