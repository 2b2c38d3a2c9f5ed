"""PodSecurity: refusals, warnings and audit annotations."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.podsecurity.plugin import Exemptions, PodSecurity
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resources import pods, workloads
from bridgehead.storage import Facts, Key, MemoryStore
from tests.unit.apiserver.world import World, open_world

PREFIX = "pod-security.kubernetes.io/"
NAMESPACES = "/api/v1/namespaces"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


def labels(**modes):
    return {PREFIX + mode.replace("_", "-"): value for mode, value in modes.items()}


async def namespace(world, **modes):
    await world.create(NAMESPACES, {"metadata": {"name": "n", "labels": labels(**modes)}})
    await world.create(f"{NAMESPACES}/n/serviceaccounts", {"metadata": {"name": "default"}})
    return f"{NAMESPACES}/n/pods"


def pod(name="p", **spec):
    container = {"name": "a", "image": "b", "securityContext": {"privileged": True}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


PRIVILEGED = 'privileged (container "a" must not set securityContext.privileged=true)'


def warnings(answer):
    return [text.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for text in answer.header("warning")]


async def test_pods_are_refused_by_the_enforced_level(world):
    url = await namespace(world, enforce="baseline", enforce_version="v1.34")
    answer = await world.call("POST", url, pod())
    assert (answer.status, answer.json["message"]) == (
        403,
        f'pods "p" is forbidden: violates PodSecurity "baseline:v1.34": {PRIVILEGED}',
    )
    good = pod()
    del good["spec"]["containers"][0]["securityContext"]
    assert (await world.call("POST", url, good)).status == 201
    # The label of another namespace is none of this pod's.
    assert (await world.call("POST", f"{NAMESPACES}/default/pods", pod(serviceAccountName="x"))).json[
        "reason"
    ] == "Forbidden"


async def test_only_updates_of_what_is_checked_are_checked(world):
    url = await namespace(world)
    await world.create(url, pod())
    await world.patch(f"{NAMESPACES}/n", {"metadata": {"labels": labels(enforce="baseline")}})
    assert (await world.patch(f"{url}/p", {"metadata": {"labels": {"a": "b"}}})).status == 200
    image = {"spec": {"containers": [{"name": "a", "image": "c"}]}}
    refused = await world.patch(f"{url}/p", image, "strategic-merge-patch")
    assert (refused.status, "violates PodSecurity" in refused.json["message"]) == (403, True)
    assert (await world.patch(f"{url}/p/status", {"status": {"phase": "Running"}})).status == 200


async def test_pods_and_templates_are_warned_about(world):
    url = await namespace(world, warn="baseline", enforce="privileged")
    text = f'would violate PodSecurity "baseline:latest": {PRIVILEGED}'
    answer = await world.call("POST", url, pod())
    assert (answer.status, warnings(answer)) == (201, [text])
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    apps = "/apis/apps/v1/namespaces/n/deployments"
    answer = await world.call("POST", apps, deployment)
    assert (answer.status, warnings(answer)) == (201, [text])
    # The template is not refused: its pods will be.
    await world.patch(f"{NAMESPACES}/n", {"metadata": {"labels": labels(enforce="baseline")}})
    answer = await world.patch(f"{apps}/d", {"spec": {"replicas": 2}})
    assert (answer.status, warnings(answer)) == (200, [text])
    answer = await world.call("POST", f"{NAMESPACES}/n/podtemplates", {"metadata": {"name": "t"}, "template": template})
    assert warnings(answer) == [text]
    # A refused pod gets no warning.
    assert warnings(await world.call("POST", url, pod("q"))) == []


async def test_labels_of_namespaces_are_checked(world):
    bad = {"metadata": {"name": "x", "labels": labels(enforce="high", warn_version="1.30")}}
    answer = await world.call("POST", NAMESPACES, bad)
    assert answer.status == 422
    assert [cause["message"] for cause in answer.json["details"]["causes"]] == [
        'Invalid value: "high": must be one of privileged, baseline, restricted',
        'Invalid value: "1.30": must be "latest" or "v1.x"',
    ]


async def test_a_new_level_warns_about_existing_pods(world):
    url = await namespace(world)
    for name in ("c", "b", "a"):
        await world.create(url, pod(name))
    await world.create(url, pod("net", hostNetwork=True))
    answer = await world.patch(f"{NAMESPACES}/n", {"metadata": {"labels": labels(enforce="baseline")}})
    assert warnings(answer) == [
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): privileged",
        "net: host namespaces, privileged",
    ]
    # An unchanged level, a lower one, and other labels.
    for change in ({"a": "b"}, labels(warn="restricted"), labels(enforce="privileged")):
        assert warnings(await world.patch(f"{NAMESPACES}/n", {"metadata": {"labels": change}})) == []


async def test_audit_annotations_and_exemptions():
    store = MemoryStore()
    for name, modes in (
        ("n", labels(enforce="baseline", audit="restricted")),
        ("bad", labels(audit="x", warn="baseline")),
    ):
        await store.create(Key("namespaces", "", name), {"metadata": {"name": name}}, Facts(labels=modes))
    exemptions = Exemptions(frozenset({"root"}), frozenset({"free"}), frozenset({"sandboxed"}))
    plugin = PodSecurity(store, exemptions)

    async def annotations(where="n", who="bob", resource=pods.RESOURCE, **spec):
        attributes = Attributes("CREATE", resource, "", where, "p", User(who))
        plugin.handles(attributes)
        obj = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}], **spec}}
        if resource is not pods.RESOURCE:
            obj = {"metadata": {"name": "p"}, "spec": {"template": obj}}
        with contextlib.suppress(ApiStatus):
            await plugin.validate(attributes, obj, {})
        return {key.removeprefix(PREFIX): value for key, value in attributes.annotations.items()}

    found = await annotations()
    assert found.pop("audit-violations").startswith('would violate PodSecurity "restricted:latest": allowPrivilege')
    assert found == {"enforce-policy": "baseline:latest"}
    # A refused pod is audited, too.
    assert set(await annotations(hostPID=True)) == {"enforce-policy", "audit-violations"}
    assert set(await annotations(resource=workloads.DEPLOYMENTS)) == {"audit-violations"}
    assert (await annotations("bad"))["error"].startswith("Failed to parse policy: metadata.labels[pod-security")
    assert await annotations(who="root") == {"exempt": "user"}
    assert await annotations("free") == {"exempt": "namespace"}
    assert await annotations(runtimeClassName="sandboxed") == {"exempt": "runtimeClass"}
    await store.close()


def test_namespaces_without_labels_are_not_handled():
    plugin = PodSecurity(MemoryStore())
    for resource in (pods.RESOURCE, workloads.DEPLOYMENTS):
        assert not plugin.handles(Attributes("CREATE", resource, "", "n", "p", User("bob")))
