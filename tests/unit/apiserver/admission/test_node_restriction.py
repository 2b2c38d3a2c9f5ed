"""Writes of nodes, in requests to a whole API server."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.world import World, open_world

NODE1 = User("system:node:node1", ("system:nodes", "system:authenticated"))
NAMELESS = User("system:node:", ("system:nodes", "system:authenticated"))
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
OWNER = {"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "7"}


@pytest.fixture
async def world():
    async with open_world() as world:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await world.create(accounts, {"metadata": {"name": "default"}})
        await world.create(accounts, {"metadata": {"name": "other"}})
        for name in ("node1", "node2"):
            labels = {"kubernetes.io/hostname": name, "node-restriction.kubernetes.io/tier": "gold", "rack": "7"}
            taints = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
            node = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}
            await world.create("/api/v1/nodes", node)
        for name, node_name in (("mine", "node1"), ("theirs", "node2")):
            await world.create(PODS, pod(name, node_name))
        yield world


def pod(name: str, node: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": "web"}}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec}}


async def refusal(world: World, method: str, url: str, body: Any = None, **options: Any) -> str:
    """Return the reason why NODE1 may not make the request."""
    answer = await world.call(method, url, body, user=NODE1, **options)
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden"), answer.body
    _, _, why = answer.json["message"].partition(" is forbidden: ")
    return str(why)


async def test_a_node_may_modify_only_its_own_node_object(world):
    url, status = "/api/v1/nodes/node2", {"status": {"phase": "Running"}}
    other = 'node "node1" is not allowed to modify node "node2"'
    assert await refusal(world, "PATCH", url, {"metadata": {"labels": {"a": "b"}}}, headers=MERGE) == other
    assert await refusal(world, "PATCH", f"{url}/status", status, headers=MERGE) == other
    stored = await world.get(url)
    assert await refusal(world, "PUT", url, stored) == other
    assert await refusal(world, "POST", "/api/v1/nodes", {"metadata": {"name": "node3"}}) == (
        'node "node1" is not allowed to modify node "node3"'
    )
    assert "not allowed to modify node" in await refusal(world, "POST", "/api/v1/nodes", {})
    assert "cannot delete" in await refusal(world, "DELETE", "/api/v1/nodes/node1")
    assert (await world.call("PATCH", "/api/v1/nodes/node1/status", status, user=NODE1, headers=MERGE)).status == 200
    own = {"metadata": {"labels": {"rack": "8", "a": "b"}}, "spec": {"podCIDR": "10.244.1.0/24"}}
    assert (await world.call("PATCH", "/api/v1/nodes/node1", own, user=NODE1, headers=MERGE)).status == 200


async def test_a_node_may_set_only_permitted_labels(world):
    for key, allowed in (
        ("rack", True),
        ("example.com/rack", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("kubelet.kubernetes.io/x", True),
        ("a.node.kubernetes.io/x", True),
        ("node-restriction.kubernetes.io/tier", False),
        ("a.node-restriction.kubernetes.io/tier", False),
        ("node-role.kubernetes.io/control-plane", False),
        ("kubernetes.io/role", False),
        ("storage.k8s.io/x", False),
        ("node.kubernetes.io.k8s.io/x", False),
    ):
        for url in ("/api/v1/nodes/node1", "/api/v1/nodes/node1/status"):
            label = {"metadata": {"labels": {key: "x"}}}
            answer = await world.call("PATCH", url, label, user=NODE1, headers=MERGE)
            assert answer.status == (200 if allowed else 403), key
            if not allowed:
                assert answer.json["message"] == f'nodes "node1" is forbidden: is not allowed to modify labels: {key}'
        await world.call("DELETE", "/api/v1/nodes/node1")
        node = {"metadata": {"name": "node1", "labels": {key: "x"}}}
        answer = await world.call("POST", "/api/v1/nodes", node, user=NODE1)
        assert answer.status == (201 if allowed else 403), key
        if not allowed:
            assert answer.json["message"] == (
                f'nodes "node1" is forbidden: node "node1" is not allowed to set the following labels: {key}'
            )
            await world.create("/api/v1/nodes", {"metadata": {"name": "node1"}})


async def test_a_node_cannot_remove_a_restricted_label(world):
    removed = {"metadata": {"labels": {"node-restriction.kubernetes.io/tier": None}}}
    assert "not allowed to modify labels" in await refusal(
        world, "PATCH", "/api/v1/nodes/node1", removed, headers=MERGE
    )
    whole = await world.get("/api/v1/nodes/node1")
    del whole["metadata"]["labels"]
    assert "modify labels: node-restriction.kubernetes.io/tier" in await refusal(
        world, "PUT", "/api/v1/nodes/node1", whole
    )


async def test_a_node_cannot_change_taints_after_creation(world):
    no_taints = 'node "node1" is not allowed to modify taints'
    for url in ("/api/v1/nodes/node1", "/api/v1/nodes/node1/status"):
        assert await refusal(world, "PATCH", url, {"spec": {"taints": None}}, headers=MERGE) == no_taints
        more = [{"op": "add", "path": "/spec/taints/-", "value": {"key": "k", "effect": "NoExecute"}}]
        assert await refusal(world, "PATCH", url, more, headers=JSON_PATCH) == no_taints
    await world.call("DELETE", "/api/v1/nodes/node1")
    taints = [{"key": "k", "effect": "NoSchedule"}]
    node = {"metadata": {"name": "node1"}, "spec": {"taints": taints}}
    assert (await world.call("POST", "/api/v1/nodes", node, user=NODE1)).status == 201


async def test_a_node_cannot_set_owners_of_its_node_object(world):
    """CVE-2025-5187: a Node with a missing owner is garbage-collected, and can then register with any labels."""
    change = {"metadata": {"ownerReferences": [OWNER]}}
    for url in ("/api/v1/nodes/node1", "/api/v1/nodes/node1/status"):
        assert await refusal(world, "PATCH", url, change, headers=MERGE) == (
            'node "node1" is not allowed to modify ownerReferences'
        )
    assert (await world.patch("/api/v1/nodes/node1", change)).status == 200  # an administrator
    removed = {"metadata": {"ownerReferences": None}}
    assert "modify ownerReferences" in await refusal(world, "PATCH", "/api/v1/nodes/node1", removed, headers=MERGE)
    await world.call("DELETE", "/api/v1/nodes/node1")
    node = {"metadata": {"name": "node1", "ownerReferences": [OWNER]}}
    assert "set ownerReferences" in await refusal(world, "POST", "/api/v1/nodes", node)


async def test_a_node_cannot_set_a_config_source(world):
    source = {"spec": {"configSource": {"configMap": {"namespace": "n", "name": "m", "kubeletConfigKey": "k"}}}}
    assert "update configSource to a new non-nil configSource" in await refusal(
        world, "PATCH", "/api/v1/nodes/node1", source, headers=MERGE
    )
    await world.call("DELETE", "/api/v1/nodes/node1")
    assert "non-nil configSource" in await refusal(
        world, "POST", "/api/v1/nodes", {"metadata": {"name": "node1"}} | source
    )


async def test_a_node_may_modify_only_pods_bound_to_it(world):
    running = {"status": {"phase": "Running"}}
    for name, status in (("mine", 200), ("theirs", 403), ("missing", 404)):
        answer = await world.call("PATCH", f"{PODS}/{name}/status", running, user=NODE1, headers=MERGE)
        assert answer.status == status
    assert await refusal(world, "PATCH", f"{PODS}/theirs/status", running, headers=MERGE) == (
        'node "node1" can only update pod status for pods with spec.nodeName set to itself'
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "theirs"}}
    assert await refusal(world, "POST", f"{PODS}/theirs/eviction", eviction) == (
        "node node1 can only evict pods with spec.nodeName set to itself"
    )
    assert await refusal(world, "DELETE", f"{PODS}/theirs") == (
        'node "node1" can only delete pods with spec.nodeName set to itself'
    )
    assert (await world.call("DELETE", f"{PODS}/missing", user=NODE1)).status == 404
    assert (await world.call("DELETE", f"{PODS}/mine?gracePeriodSeconds=0", user=NODE1)).status == 200


async def test_a_node_cannot_set_labels_or_the_spec_of_a_pod(world):
    """A label would make the pod a backend of any Service."""
    label = {"metadata": {"labels": {"app": "bank"}}}
    assert await refusal(world, "PATCH", f"{PODS}/mine/status", label, headers=MERGE) == (
        'node "node1" cannot update labels through pod status'
    )
    assert "cannot patch resource" in await refusal(world, "PATCH", f"{PODS}/mine", label, headers=MERGE)
    assert "cannot update resource" in await refusal(world, "PUT", f"{PODS}/mine", await world.get(f"{PODS}/mine"))
    claims = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "theirs"}]}}
    assert "resource claim" in await refusal(world, "PATCH", f"{PODS}/mine/status", claims, headers=MERGE)
    spec = {"spec": {"containers": [{"name": "c", "image": "mine"}]}, "status": {"phase": "Running"}}
    answer = await world.call("PATCH", f"{PODS}/mine/status", spec, user=NODE1, headers=MERGE)
    assert (answer.status, answer.json["spec"]["containers"][0]["image"]) == (200, "i")


def mirror_pod(uid: str, **changes: Any) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": uid, "controller": True}
    made = pod("static", "node1")
    made["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "hash"}, "ownerReferences": [owner]}
    return {key: {**value, **changes.get(key, {})} for key, value in made.items()}


async def test_a_node_may_create_mirror_pods_only(world):
    uid = (await world.get("/api/v1/nodes/node1"))["metadata"]["uid"]
    good = mirror_pod(uid)
    (owner,) = good["metadata"]["ownerReferences"]
    volume = {"name": "v"}
    for change, why in (
        ({"metadata": {"annotations": {}}}, "can only create mirror pods"),
        ({"spec": {"nodeName": "node2"}}, "can only create pods with spec.nodeName set to itself"),
        ({"metadata": {"ownerReferences": []}}, "with an owner reference set to itself"),
        ({"metadata": {"ownerReferences": [owner, owner | {"uid": "x"}]}}, "with a single owner reference set to"),
        ({"metadata": {"ownerReferences": [owner | {"name": "node2"}]}}, "with an owner reference set to itself"),
        ({"metadata": {"ownerReferences": [owner | {"controller": False}]}}, "a controller owner reference"),
        ({"metadata": {"ownerReferences": [owner | {"blockOwnerDeletion": True}]}}, "must not set blockOwnerDeletion"),
        ({"metadata": {"ownerReferences": [owner | {"uid": "x"}]}}, f"UID mismatch: expected x got {uid}"),
        ({"spec": {"serviceAccountName": "default"}}, "may not reference service accounts"),
        ({"spec": {"serviceAccount": "default"}}, "may not reference service accounts"),
        ({"spec": {"volumes": [volume | {"secret": {"secretName": "s"}}]}}, "reference secrets"),
        ({"spec": {"imagePullSecrets": [{"name": "s"}]}}, "reference secrets"),
        ({"spec": {"volumes": [volume | {"configMap": {"name": "s"}}]}}, "reference configmaps"),
        ({"spec": {"volumes": [volume | {"persistentVolumeClaim": {"claimName": "s"}}]}}, "persistentvolumeclaims"),
        ({"spec": {"resourceClaims": [{"name": "r", "resourceClaimName": "s"}]}}, "reference resourceclaims"),
    ):
        assert why in await refusal(world, "POST", PODS, mirror_pod(uid, **change))
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    with_token = mirror_pod(uid, spec={"volumes": [volume | token]})
    assert await refusal(world, "POST", PODS, with_token) == (
        "a mirror pod may not use ServiceAccountToken volume projections"
    )
    answer = await world.call("POST", PODS, good, user=NODE1)
    assert answer.status == 201
    assert "serviceAccountName" not in answer.json["spec"]
    assert "volumes" not in answer.json["spec"]
    without = {"metadata": {"annotations": {"kubernetes.io/config.mirror": None}}}
    for path in (f"{PODS}/static", f"{PODS}/static/status"):
        answer = await world.call("PATCH", path, without, headers=MERGE)
        assert (answer.status, "may not remove or update mirror pod annotation" in answer.json["message"]) == (
            422,
            True,
        )


async def test_a_node_may_modify_only_its_own_lease(world):
    def lease(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"holderIdentity": "x"}}

    own = "can only access node lease with the same name as the requesting node"
    assert await refusal(world, "POST", LEASES, lease("node2")) == own
    elsewhere = LEASES.replace("kube-node-lease", "default")
    assert 'in the "kube-node-lease" system namespace' in await refusal(world, "POST", elsewhere, lease("node1"))
    answer = await world.call("PUT", f"{LEASES}/node1", lease("node2"), user=NODE1)
    assert answer.status == 400
    assert (await world.call("GET", f"{LEASES}/node2")).status == 404
    answer = await world.call("POST", LEASES, lease("node1"), user=NODE1)
    assert answer.status == 201
    assert (await world.call("PUT", f"{LEASES}/node1", answer.json, user=NODE1)).status == 200
    assert own in await refusal(world, "PATCH", f"{LEASES}/node2", lease("node2"), headers=MERGE)


async def test_a_node_may_modify_only_its_own_csi_node_and_slices(world):
    own = "can only access CSINode with the same name as the requesting node"
    nodes, slices = "/apis/storage.k8s.io/v1/csinodes", "/apis/resource.k8s.io/v1/resourceslices"

    def csi_node(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"drivers": []}}

    def resource_slice(name: str, node: str) -> dict[str, Any]:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        return {"metadata": {"name": name}, "spec": {"driver": "d.example.com", "nodeName": node, "pool": pool}}

    assert await refusal(world, "POST", nodes, csi_node("node2")) == own
    assert (await world.call("POST", nodes, csi_node("node1"), user=NODE1)).status == 201
    assert (await world.call("DELETE", f"{nodes}/node1", user=NODE1)).status == 200
    refused = "can only create ResourceSlice with the same NodeName as the requesting node"
    assert await refusal(world, "POST", slices, resource_slice("theirs", "node2")) == refused
    assert (await world.call("POST", slices, resource_slice("mine", "node1"), user=NODE1)).status == 201
    await world.create(slices, resource_slice("theirs", "node2"))
    selected = f"{slices}?fieldSelector=spec.nodeName%3Dnode1"
    assert (await world.call("DELETE", selected, user=NODE1)).status == 200
    assert [one["metadata"]["name"] for one in (await world.get(slices))["items"]] == ["theirs"]


async def test_a_node_may_resize_claims_of_its_pods(world):
    url = "/api/v1/namespaces/default/persistentvolumeclaims"
    storage = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    await world.create(url, {"metadata": {"name": "data"}, "spec": storage})
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await world.create(PODS, pod("stateful", "node1", volumes=[volume]))
    capacity = {"status": {"capacity": {"storage": "2Gi"}}}
    answer = await world.call("PATCH", f"{url}/data/status", capacity, user=NODE1, headers=MERGE)
    assert (answer.status, answer.json["status"]["capacity"]) == (200, {"storage": "2Gi"})
    why = 'node "node1" is not allowed to update fields other than status.quantity and status.conditions'
    for change in ({"status": {"phase": "Lost"}}, {"metadata": {"labels": {"a": "b"}}}):
        assert await refusal(world, "PATCH", f"{url}/data/status", change, headers=MERGE) == why


async def test_a_node_may_request_tokens_only_for_its_pods(world):
    own = (await world.get(f"{PODS}/mine"))["metadata"]["uid"]
    theirs = (await world.get(f"{PODS}/theirs"))["metadata"]["uid"]
    url = "/api/v1/namespaces/default/serviceaccounts/default/token"

    def ask(name: str, uid: str, *audiences: str) -> dict[str, Any]:
        bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        return {"spec": {"audiences": list(audiences), "boundObjectRef": bound}}

    assert await refusal(world, "POST", url, {"spec": {}}) == "node requested token not bound to a pod"
    assert "binding without a uid" in await refusal(world, "POST", url, ask("mine", ""))
    assert "does not match the UID in record" in await refusal(world, "POST", url, ask("mine", theirs))
    assert "a different node" in await refusal(world, "POST", url, ask("theirs", theirs))
    assert "0 or 1 audiences" in await refusal(world, "POST", url, ask("mine", own, "a", "b"))
    assert await refusal(world, "POST", url, ask("mine", own, "vault")) == (
        'audience "vault" not found in pod spec volume, '
        "system:node:node1 is not authorized to request tokens for this audience"
    )
    assert "no relationship found" in await refusal(
        world, "POST", url.replace("/default/token", "/other/token"), ask("mine", own)
    )
    node = ask("mine", own)
    node["spec"]["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": "x"}
    assert "not bound to a pod" in await refusal(world, "POST", url, node)
    assert (await world.call("POST", url, ask("missing", own), user=NODE1)).status == 404
    assert (await world.call("POST", url, ask("mine", own), user=NODE1)).status == 201
    rule = {"apiGroups": [""], "resources": ["vault"], "verbs": ["request-serviceaccounts-token-audience"]}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await world.create(f"{rbac}/clusterroles", {"metadata": {"name": "vault"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "vault"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "vault"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }
    await world.create(f"{rbac}/clusterrolebindings", binding)
    assert (await world.call("POST", url, ask("mine", own, "vault"), user=NODE1)).status == 201


async def test_a_node_may_request_the_tokens_that_csi_drivers_need(world):
    volumes = [
        {"name": "inline", "csi": {"driver": "a.example.com"}},
        {"name": "claimed", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    uid = (await world.create(PODS, pod("stateful", "node1", volumes=volumes)))["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "stateful", "uid": uid}
    url = "/api/v1/namespaces/default/serviceaccounts/default/token"

    async def ask(audience: str) -> str:
        body = {"spec": {"audiences": [audience], "boundObjectRef": bound}}
        answer = await world.call("POST", url, body, user=NODE1)
        return "" if answer.status == 201 else answer.json["message"].partition("is forbidden: ")[2]

    async def drive(name: str, audience: str) -> None:
        driver = {"metadata": {"name": name}, "spec": {"tokenRequests": [{"audience": audience}]}}
        await world.create("/apis/storage.k8s.io/v1/csidrivers", driver)

    assert await ask("vault") == (
        'error validating audience "vault": [csidriver.storage.k8s.io "a.example.com" not found, '
        'persistentvolumeclaim "data" not found]'
    )
    await drive("a.example.com", "vault")
    assert await ask("vault") == ""
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
    await world.create(
        "/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec}
    )
    assert await ask("files") == 'error validating audience "files": persistentvolume "disk" not found'
    await drive("file.csi.azure.com", "files")
    disk = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "azureFile": {"shareName": "a", "secretName": "b", "secretNamespace": "default"},
    }
    await world.create("/api/v1/persistentvolumes", {"metadata": {"name": "disk"}, "spec": disk})
    assert await ask("files") == ""
    assert "is not authorized to request tokens for this audience" in await ask("other")


async def test_a_node_user_without_a_name_is_unknown(world):
    node = {"metadata": {"name": ""}}
    answer = await world.call("POST", "/api/v1/nodes", node, user=NAMELESS)
    assert answer.status == 403
    assert answer.json["message"].endswith(': unknown node for user "system:node:"')


async def test_the_rules_of_a_node_cannot_be_listed(world):
    url = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = (await world.call("POST", url, {"spec": {"namespace": "default"}}, user=NODE1)).json["status"]
    assert status["incomplete"] is True
    assert status["evaluationError"] == "node authorizer does not support user rule resolution"
    assert all("pods" not in rule["resources"] for rule in status["resourceRules"])


async def test_access_reviews_honor_field_selectors(world):
    own = {"key": "spec.nodeName", "operator": "In", "values": ["node1"]}
    for selector, allowed in (
        ({"rawSelector": "spec.nodeName=node1"}, True),
        ({"requirements": [own]}, True),
        ({"requirements": [own | {"operator": "NotIn"}]}, False),
        ({"requirements": [own | {"values": ["node1", "node2"]}]}, False),
    ):
        review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": selector}}}
        url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await world.call("POST", url, review, user=NODE1)
        assert answer.json["status"]["allowed"] is allowed
