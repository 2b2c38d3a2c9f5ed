"""A lab's own objects in a state that another version of Bridgehead has made, against the real API server."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from bridgehead.client import ApiClient
from bridgehead.client.errors import NotFound
from bridgehead.lab.corefile_change import change_corefile
from bridgehead.lab.earlier_names import DNS, EARLIER_DNS, EarlierDns
from bridgehead.lab.plan import LabConfig
from bridgehead.lab.system_objects import DIGEST_ANNOTATION, KINDS, ensure, system_manifests
from bridgehead.objects.kinds import CONFIG_MAPS

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
    new = shipped("dns.yaml", "Deployment", "coredns")
    kind = KINDS["Deployment"]
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(kind, new)
        await client.patch(kind, "coredns", "kube-system", {"spec": {"replicas": 5}})
        before = await client.get(kind, "coredns", "kube-system")
        await ensure(client, kind, new)
        after = await client.get(kind, "coredns", "kube-system")
        assert after.spec == before.spec, "no rollout"
        assert after.spec.replicas == 5
        assert DIGEST_ANNOTATION in after.metadata.annotations


async def test_rights_follow_and_the_users_objects_stay() -> None:
    role = shipped("balancer-rbac.yaml", "ClusterRole", "bridgehead:speaker")
    service = shipped("dns.yaml", "Service", "kube-dns")
    settings = shipped("dns.yaml", "ConfigMap", "coredns")
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(
            KINDS["ClusterRole"], {**role, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
        )
        await client.create(KINDS["ConfigMap"], {**settings, "data": {"Corefile": "the user's"}})
        for manifest in (role, service, service, settings):
            await ensure(client, KINDS[manifest["kind"]], manifest)
        found = await client.request("GET", KINDS["ClusterRole"].path("", "bridgehead:speaker"))
        assert found["rules"] == role["rules"]
        kept = await client.get(KINDS["ConfigMap"], "coredns", "kube-system")
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


# --- The DNS, which earlier versions called bridgehead-dns --------------------------------------------------------


def earlier(kind: str, name: str = EARLIER_DNS) -> dict[str, Any]:
    """An object of the DNS as earlier versions shipped it."""
    manifest = copy.deepcopy(shipped("dns.yaml", kind, DNS))
    manifest["metadata"]["name"] = name
    if kind == "Deployment":
        spec = manifest["spec"]["template"]["spec"]
        spec["serviceAccountName"] = spec["volumes"][0]["configMap"]["name"] = name
    return manifest


async def names(client: ApiClient, kind: str) -> list[str]:
    found = (await client.list(KINDS[kind], "" if kind.startswith("Cluster") else "kube-system")).items
    return sorted(one.metadata.name for one in found if "dns" in one.metadata.name)


async def install(client: ApiClient) -> None:
    for manifest in system_manifests("dns.yaml", LabConfig(name="lab", nodes=3, port=6443)):
        await ensure(client, KINDS[manifest["kind"]], manifest)


async def test_the_dns_of_an_earlier_version_gets_its_present_names() -> None:
    async with api_world() as world, ApiClient(world.config) as client:
        for kind in ("ServiceAccount", "ConfigMap", "Deployment"):
            await client.create(KINDS[kind], earlier(kind))
        service = shipped("dns.yaml", "Service", "kube-dns")
        service["metadata"]["labels"]["kubernetes.io/name"] = EARLIER_DNS
        await client.create(KINDS["Service"], service)
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bridgehead:dns"}
        for kind, more in (("ClusterRole", {}), ("ClusterRoleBinding", {"roleRef": role})):
            meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "bridgehead:dns"}}
            await client.create(KINDS[kind], {**meta, "kind": kind, **more})
        data = {"Corefile": "the user's", "custom.hosts": "10.0.0.1 a"}
        await client.patch(KINDS["ConfigMap"], EARLIER_DNS, "kube-system", {"data": data})
        await client.patch(KINDS["Deployment"], EARLIER_DNS, "kube-system", {"spec": {"replicas": 5}})

        dns = EarlierDns(client, KINDS)
        await dns.keep_settings()
        assert (await client.get(KINDS["ConfigMap"], DNS, "kube-system")).data == data
        waiting = "the end of the DNS of an earlier version"
        assert [await dns.missing(), await dns.missing()] == [waiting, waiting]
        assert await names(client, "Deployment") == [EARLIER_DNS], "never two at a time"
        # No garbage collector is here, which ends the deletion when the pods are gone.
        await client.patch(KINDS["Deployment"], EARLIER_DNS, "kube-system", {"metadata": {"finalizers": None}})
        assert await dns.missing() is None
        await install(client)
        await dns.finish()

        for kind in ("ServiceAccount", "ConfigMap", "Deployment"):
            assert await names(client, kind) == [DNS]
        found = await client.get(KINDS["Service"], "kube-dns", "kube-system")
        assert found.metadata.labels["kubernetes.io/name"] == "CoreDNS"
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            assert "bridgehead:dns" not in await names(client, kind)
            assert "system:coredns" in await names(client, kind)
        assert (await client.get(KINDS["ConfigMap"], DNS, "kube-system")).data == data
        assert (await client.get(KINDS["Deployment"], DNS, "kube-system")).spec.replicas == 5


async def test_an_interrupted_change_of_names_is_continued() -> None:
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(KINDS["ConfigMap"], {**earlier("ConfigMap"), "data": {"Corefile": "the user's"}})
        await EarlierDns(client, KINDS).keep_settings()
        again = EarlierDns(client, KINDS)
        await again.keep_settings()
        assert await again.missing() is None
        await install(client)
        await again.finish()
        assert await names(client, "ConfigMap") == [DNS]
        assert (await client.get(KINDS["ConfigMap"], DNS, "kube-system")).data == {"Corefile": "the user's"}


async def test_what_is_the_users_keeps_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """Another Deployment of the earlier name, and a Corefile that would be lost."""
    deployment = earlier("Deployment")
    labels = {"app": "mine"}
    deployment["spec"]["selector"]["matchLabels"] = deployment["spec"]["template"]["metadata"]["labels"] = labels
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(KINDS["Deployment"], deployment)
        await client.create(KINDS["ConfigMap"], {**earlier("ConfigMap"), "data": {"Corefile": "old"}})
        await client.create(KINDS["ConfigMap"], {**earlier("ConfigMap", DNS), "data": {"Corefile": "new"}})
        dns = EarlierDns(client, KINDS)
        await dns.keep_settings()
        assert await dns.missing() is None
        await install(client)
        await dns.finish()
        assert await names(client, "Deployment") == [EARLIER_DNS, DNS]
        for name, text in ((EARLIER_DNS, "old"), (DNS, "new")):
            assert (await client.get(KINDS["ConfigMap"], name, "kube-system")).data == {"Corefile": text}
        assert "ConfigMap bridgehead-dns is not used any more; the DNS reads coredns" in caplog.text


async def test_a_new_lab_has_nothing_to_bring_over() -> None:
    async with api_world() as world, ApiClient(world.config) as client:
        dns = EarlierDns(client, KINDS)
        await dns.keep_settings()
        with pytest.raises(NotFound):
            await client.get(KINDS["ConfigMap"], DNS, "kube-system")
        assert await dns.missing() is None
        await install(client)
        await dns.finish()
        assert await names(client, "ConfigMap") == [DNS]


async def test_the_corefile_follows_the_option_for_the_outside_unless_it_was_edited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = LabConfig(name="lab", nodes=1, port=6443)
    inside, outside = (
        next(one for one in system_manifests("dns.yaml", each) if one["kind"] == "ConfigMap")
        for each in (config, msgspec.structs.replace(config, outside=True))
    )

    async with api_world() as world, ApiClient(world.config) as client:

        async def corefile() -> str:
            text: str = (await client.get(CONFIG_MAPS, DNS, "kube-system")).data["Corefile"]
            return text

        await change_corefile(client, outside, inside, is_outside=True)  # none yet
        await client.create(CONFIG_MAPS, inside)
        await change_corefile(client, outside, inside, is_outside=True)
        assert await corefile() == outside["data"]["Corefile"]
        await change_corefile(client, inside, outside, is_outside=False)
        assert await corefile() == inside["data"]["Corefile"]
        assert not caplog.records

        mine = {"data": {"Corefile": ".:53 {\n    whoami\n}\n"}}
        await client.patch(CONFIG_MAPS, DNS, "kube-system", mine)
        await change_corefile(client, inside, outside, is_outside=False)
        assert not caplog.records
        await change_corefile(client, outside, inside, is_outside=True)
        assert await corefile() == mine["data"]["Corefile"]
        assert "names outside of the cluster need `forward . 169.254.253.3`" in caplog.text
