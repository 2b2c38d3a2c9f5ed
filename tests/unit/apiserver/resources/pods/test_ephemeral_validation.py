"""The subresource `ephemeralcontainers` of pods."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.world import World, open_world

PODS = "/api/v1/namespaces/default/pods"
EPHEMERAL = f"{PODS}/a/ephemeralcontainers"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        await world.create(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "b"}]}})
        yield world


def patch(*containers):
    return {"spec": {"ephemeralContainers": list(containers)}}


def debugger(name="debug", **more):
    return {"name": name, "image": "busybox", **more}


async def test_ephemeral_containers_are_added_and_nothing_else_changes(world):
    change = patch(debugger(targetContainerName="main", stdin=True))
    change["spec"]["containers"] = [{"name": "main", "image": "other"}]
    change["metadata"] = {"labels": {"a": "b"}}
    answer = await world.patch(EPHEMERAL, change)
    assert answer.status == 200, answer.body
    pod = answer.json
    (added,) = pod["spec"]["ephemeralContainers"]
    assert (added["imagePullPolicy"], added["terminationMessagePolicy"]) == ("Always", "File")
    assert (pod["spec"]["containers"][0]["image"], pod["metadata"].get("labels")) == ("b", None)
    assert pod["metadata"]["generation"] == 2
    both = await world.call("PUT", EPHEMERAL, {**pod, "spec": {**pod["spec"], **patch(added, debugger("two"))["spec"]}})
    assert [one["name"] for one in both.json["spec"]["ephemeralContainers"]] == ["debug", "two"]
    assert (await world.call("GET", EPHEMERAL)).json["kind"] == "Pod"


REFUSALS = [
    ([debugger("main")], 'spec.ephemeralContainers[0].name: Duplicate value: "main"'),
    ([{"name": "x"}], "spec.ephemeralContainers[0].image: Required value"),
    ([debugger(targetContainerName="no")], 'spec.ephemeralContainers[0].targetContainerName: Not found: "no"'),
    ([debugger(ports=[{"containerPort": 80}])],
     "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container"),
    ([debugger(resources={"limits": {"cpu": "1"}})],
     "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container"),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "text"), REFUSALS)
async def test_invalid_ephemeral_containers_are_refused(world, containers, text):
    answer = await world.patch(EPHEMERAL, patch(*containers))
    assert (answer.status, answer.json["message"]) == (422, f'Pod "a" is invalid: {text}')


async def test_ephemeral_containers_stay_as_they_are(world):
    pod = (await world.patch(EPHEMERAL, patch(debugger()))).json
    for containers, verb in (([], "removed"), ([debugger(image="other")], "changed")):
        changed = {**pod, "spec": {**pod["spec"], "ephemeralContainers": containers}}
        answer = await world.call("PUT", EPHEMERAL, changed)
        assert answer.status == 422
        assert f'existing ephemeral containers "debug" may not be {verb}' in answer.json["message"]


async def test_only_the_subresource_adds_them(world):
    spec = {"containers": [{"name": "main", "image": "b"}], "ephemeralContainers": [debugger()]}
    answer = await world.call("POST", PODS, {"metadata": {"name": "b"}, "spec": spec})
    assert "spec.ephemeralContainers: Forbidden: cannot be set on create" in answer.json["message"]
    answer = await world.patch(f"{PODS}/a", patch(debugger()))
    assert (answer.status, "pod updates may not change fields other than" in answer.json["message"]) == (422, True)


async def test_a_binding_does_not_change_the_generation(world):
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node1"}}
    assert (await world.call("POST", f"{PODS}/a/binding", binding)).status == 201
    pod = (await world.call("GET", f"{PODS}/a")).json
    assert pod["metadata"]["generation"] == 1
    assert [one["observedGeneration"] for one in pod["status"]["conditions"]] == [1]
