"""A lab's own objects in a state that another version of Bridgehead has made, against the real API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bridgehead.client import ApiClient
from bridgehead.lab.plan import LabConfig
from bridgehead.lab.shipped_objects import DIGEST_ANNOTATION, ensure
from bridgehead.lab.system import KINDS, system_manifests

from .api_world import api_world

pytestmark = pytest.mark.integration


def shipped(file: str, kind: str, name: str) -> dict[str, Any]:
    manifests = system_manifests(file, LabConfig(name="lab", nodes=3, port=6443))
    (found,) = (one for one in manifests if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


async def test_up_brings_an_older_speaker_to_what_is_shipped() -> None:
    new = shipped("balancer.yaml", "DaemonSet", "bridgehead-speaker")
    kind = KINDS["DaemonSet"]
    old = copy.deepcopy(new)
    (container,) = old["spec"]["template"]["spec"]["containers"]
    container["securityContext"] = {"privileged": True}
    old["spec"]["template"]["spec"]["volumes"].append({"name": "older", "emptyDir": {}})
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(kind, old)  # as versions did that set no annotation
        path = kind.path("kube-system", "bridgehead-speaker")
        restart = {"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}}
        await client.patch(kind, "bridgehead-speaker", "kube-system", restart)

        await ensure(client, kind, new)
        found = await client.request("GET", path)
        template = found["spec"]["template"]
        (container,) = template["spec"]["containers"]
        assert container["securityContext"] == new["spec"]["template"]["spec"]["containers"][0]["securityContext"]
        assert [volume["name"] for volume in template["spec"]["volumes"]] == ["sysctls"]
        assert template["metadata"]["annotations"] == {"restartedAt": "now"}

        # While nothing else is shipped, the user's changes stay, and nothing is written.
        limit = {"spec": {"template": {"spec": {"priorityClassName": "", "terminationGracePeriodSeconds": 7}}}}
        await client.patch(kind, "bridgehead-speaker", "kube-system", limit)
        before = await client.request("GET", path)
        await ensure(client, kind, new)
        assert await client.request("GET", path) == before


async def test_an_object_that_is_as_shipped_only_gets_its_digest() -> None:
    new = shipped("dns.yaml", "Deployment", "bridgehead-dns")
    kind = KINDS["Deployment"]
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(kind, new)
        await client.patch(kind, "bridgehead-dns", "kube-system", {"spec": {"replicas": 5}})
        before = await client.get(kind, "bridgehead-dns", "kube-system")
        await ensure(client, kind, new)
        after = await client.get(kind, "bridgehead-dns", "kube-system")
        assert after.spec == before.spec, "no rollout"
        assert after.spec.replicas == 5
        assert DIGEST_ANNOTATION in after.metadata.annotations


async def test_rights_follow_and_the_users_objects_stay() -> None:
    role = shipped("balancer-rbac.yaml", "ClusterRole", "bridgehead:speaker")
    service = shipped("dns.yaml", "Service", "kube-dns")
    settings = shipped("dns.yaml", "ConfigMap", "bridgehead-dns")
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(
            KINDS["ClusterRole"], {**role, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
        )
        await client.create(KINDS["ConfigMap"], {**settings, "data": {"Corefile": "the user's"}})
        for manifest in (role, service, service, settings):
            await ensure(client, KINDS[manifest["kind"]], manifest)
        found = await client.request("GET", KINDS["ClusterRole"].path("", "bridgehead:speaker"))
        assert found["rules"] == role["rules"]
        kept = await client.get(KINDS["ConfigMap"], "bridgehead-dns", "kube-system")
        assert kept.data == {"Corefile": "the user's"}


async def test_an_object_of_the_users_that_has_the_name_stays(caplog: pytest.LogCaptureFixture) -> None:
    binding = shipped("balancer-rbac.yaml", "ClusterRoleBinding", "bridgehead:speaker")
    other = {**binding, "roleRef": {**binding["roleRef"], "name": "view"}}
    kind = KINDS["ClusterRoleBinding"]
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(kind, other)
        await ensure(client, kind, binding)  # roleRef cannot be changed
        found = await client.request("GET", kind.path("", "bridgehead:speaker"))
        assert found["roleRef"]["name"] == "view"
        assert "ClusterRoleBinding bridgehead:speaker stays as it is: " in caplog.text
