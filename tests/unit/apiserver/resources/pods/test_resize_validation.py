"""The subresource `resize` of pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.pods.resize_validation import validate_resize
from tests.unit.apiserver.world import Answer, World, open_world

PODS = "/api/v1/namespaces/default/pods"
RESIZE = f"{PODS}/a/resize"
SMALL = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m"}}


def container(name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "b", "resources": SMALL, **more}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        init = [container("setup"), container("mesh", restartPolicy="Always")]
        spec = {"initContainers": init, "containers": [container(), container("log")]}
        await world.create(PODS, {"metadata": {"name": "a"}, "spec": spec})
        yield world


def merged(world: World, url: str, change: dict[str, Any]) -> Awaitable[Answer]:
    return world.patch(url, change, "strategic-merge-patch")


def patch(*containers: dict[str, Any], kind: str = "containers") -> dict[str, Any]:
    return {"spec": {kind: list(containers)}}


async def test_a_resize_changes_resources_and_nothing_else(world: World) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    resources = {"requests": {"cpu": "150m"}, "limits": {"memory": "128Mi"}}
    change = patch({"name": "main", "image": "other", "resources": resources, "resizePolicy": policy})
    change["metadata"] = {"labels": {"a": "b"}}
    answer = await merged(world, RESIZE, change)
    assert answer.status == 200, answer.body
    pod = answer.json
    main = pod["spec"]["containers"][0]
    assert main["resources"] == {
        "requests": {"cpu": "150m", "memory": "64Mi"},
        "limits": {"cpu": "200m", "memory": "128Mi"},
    }
    assert (main["image"], main["resizePolicy"], pod["metadata"].get("labels")) == ("b", policy, None)
    assert pod["metadata"]["generation"] == 2
    assert pod["metadata"]["managedFields"][-1]["subresource"] == "resize"
    for name in ("mesh", "setup"):
        init = patch({"name": name, "resources": {"limits": {"cpu": "300m"}}}, kind="initContainers")
        assert (await merged(world, RESIZE, init)).status == 200
    main["resources"]["limits"]["cpu"] = "400m"
    pod["metadata"].pop("resourceVersion")
    whole = (await world.call("PUT", RESIZE, pod)).json
    assert whole["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "400m"
    assert (await world.call("GET", RESIZE)).json["kind"] == "Pod"


async def test_the_resources_of_a_whole_pod_are_resized(world: World) -> None:
    spec = {"containers": [container()], "resources": {"limits": {"cpu": "1", "memory": "256Mi"}}}
    await world.create(PODS, {"metadata": {"name": "whole"}, "spec": spec})
    url = f"{PODS}/whole/resize"
    answer = await merged(world, url, {"spec": {"resources": {"limits": {"cpu": "2"}}}})
    assert answer.status == 200, answer.body
    assert answer.json["spec"]["resources"]["limits"] == {"cpu": "2", "memory": "256Mi"}
    for limits, why in (
        ({"cpu": None}, "spec.resources.limits: Forbidden: pod-level resource limits cannot be removed"),
        ({"hugepages-2Mi": "4Mi"}, "spec: Forbidden: only cpu and memory resources are mutable at pod-level"),
    ):
        refused = await merged(world, url, {"spec": {"resources": {"limits": limits}}})
        assert (refused.status, why in refused.json["message"]) == (422, True), refused.json["message"]


async def test_an_update_changes_no_resources(world: World) -> None:
    refused = await merged(world, f"{PODS}/a", patch({"name": "main", "resources": {"limits": {"cpu": "1"}}}))
    assert refused.status == 422
    assert "pod updates may not change fields other than" in refused.json["message"]


RESIZED = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}
REFUSALS = [
    (patch({"name": "main", "resources": {"limits": {"cpu": None}}}),
     "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"),
    (patch({"name": "log", "resources": {"requests": {"memory": None}}}),
     "spec.containers[1].resources.requests: Forbidden: resource requests cannot be removed"),
    (patch({"name": "main", "resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}}),
     "spec: Forbidden: only cpu and memory resources are mutable"),
    (patch({"name": "setup", "resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}},
           kind="initContainers"),
     "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable"),
    (patch({"name": "setup", "resources": {"limits": {"cpu": "300m"}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}, kind="initContainers"),
     "spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of RestartContainer cannot "
     "be resized"),
    (patch({"name": "more", "image": "c"}, kind="initContainers"),
     "spec.initContainers: Forbidden: initContainers may not be added or removed on resize"),
    (patch({"name": "more", "image": "c"}),
     "spec.containers: Forbidden: containers may not be added or removed on resize"),
    (patch({"name": "log", "$patch": "delete"}),
     "spec.containers: Forbidden: containers may not be added or removed on resize"),
    (patch({"name": "log", "$patch": "delete"}, {"name": "more", "image": "c"}),
     "spec.containers[1].name: Forbidden: containers may not be renamed or reordered on resize"),
    (patch({"name": "main", "resources": {"requests": {"cpu": "250m"}}}),
     'spec.containers[0].resources.requests: Invalid value: "250m": must be less than or equal to cpu limit of 200m'),
    (patch({"name": "main", "resizePolicy": [{"resourceName": "cpu"}]}),
     "spec.containers[0].resizePolicy: Required value"),
    (patch({"name": "main", "resizePolicy": [{"resourceName": "disk", "restartPolicy": "Often"}]}),
     'spec.containers[0].resizePolicy: Unsupported value: "Often": supported values: "NotRequired", '
     '"RestartContainer"'),
]  # fmt: skip


@pytest.mark.parametrize(("change", "text"), REFUSALS)
async def test_invalid_resizes_are_refused(world: World, change: dict[str, Any], text: str) -> None:
    answer = await merged(world, RESIZE, change)
    assert answer.status == 422
    assert text in answer.json["message"]


async def test_the_class_of_a_pod_stays(world: World) -> None:
    spec = {"containers": [{"name": "main", "image": "b"}]}
    await world.create(PODS, {"metadata": {"name": "best-effort"}, "spec": spec})
    answer = await world.patch(f"{PODS}/best-effort/resize", patch({"name": "main", "resources": SMALL}))
    assert (
        'spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing'
        in (answer.json["message"])
    )


# a stored pod, the resources of its resized form, the refusals
KINDS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, {}, ["static pods cannot be resized"]),
    ({"spec": {"os": {"name": "windows"}}}, {}, ["windows pods cannot be resized"]),
    ({"status": {"containerStatuses": [{}, {"state": {"running": {}}, "resources": {}}]}}, {}, []),
    ({"status": {"containerStatuses": [{"state": {"running": {}}}]}}, {}, [
        "Pod running on node without support for resize"]),
    ({"spec": {"resources": {"limits": {"cpu": 1}}}}, {}, ["pod-level resources cannot be removed"]),
    ({"spec": {"resources": {"requests": {"cpu": 1}}}}, {"resources": {}}, [
        "pod-level resource requests cannot be removed"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "spec", "expected"), KINDS)
def test_some_pods_keep_their_size(old: dict[str, Any], spec: dict[str, Any], expected: list[str]) -> None:
    pod = Field({"spec": spec})
    validate_resize(pod, {"metadata": {}, **old})
    texts = [error.message.removeprefix("Forbidden: ") for error in pod.errors]
    assert [text for text in texts if "QOS" not in text] == expected


POLICIES = [
    ({"resizePolicy": [{"restartPolicy": "NotRequired"}]}, "spec.containers[0].resizePolicy: Required value"),
    ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2},
     'spec.containers[0].resizePolicy[1]: Duplicate value: "cpu"'),
    ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
     "spec.containers[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when "
     "`restartPolicy` is 'Never'"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "text"), POLICIES)
async def test_resize_policies(world: World, more: dict[str, Any], text: str) -> None:
    spec = {"restartPolicy": "Never", "containers": [container(**more)]}
    answer = await world.call("POST", PODS, {"metadata": {"name": "b"}, "spec": spec})
    assert text in answer.json["message"]


async def test_a_resize_counts_in_the_quota(world: World) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "500m"}}}
    await world.create("/api/v1/namespaces/default/resourcequotas", quota)
    used = {"hard": {"requests.cpu": "500m"}, "used": {"requests.cpu": "300m"}}
    await world.patch("/api/v1/namespaces/default/resourcequotas/q/status", {"status": used})
    grown = {"requests": {"cpu": "600m"}, "limits": {"cpu": "600m"}}
    refused = await merged(world, RESIZE, patch({"name": "main", "resources": grown}))
    assert (refused.status, "exceeded quota: q" in refused.json["message"]) == (403, True)
