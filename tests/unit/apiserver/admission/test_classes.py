"""Classes at admission: default classes, priorities of pods, overhead of runtimes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.apiserver.world import World, open_world

PODS = "/api/v1/namespaces/default/pods"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
INGRESS_CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
BACKEND = {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        yield world


def pod(name="a", **spec):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "b"}], **spec}}


async def message_of(world, url, obj, code=403):
    answer = await world.call("POST", url, obj)
    assert answer.status == code, answer.body
    return answer.json["message"]


async def test_a_pod_gets_the_priority_of_its_class(world):
    await world.create(PRIORITIES, {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"})
    spec = (await world.create(PODS, pod(priorityClassName="high")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    created = await world.create(PODS, pod("b", priorityClassName="system-node-critical"))
    assert created["spec"].pop("priority") == 2_000_001_000
    assert created["spec"].pop("preemptionPolicy") == "PreemptLowerPriority"
    updated = await world.call("PUT", f"{PODS}/b", created)
    assert updated.json["spec"]["priority"] == 2_000_001_000, updated.body
    assert (await world.create(PODS, pod("c")))["spec"]["priority"] == 0
    assert await message_of(world, PODS, pod("d", priorityClassName="nope")) == (
        'pods "d" is forbidden: no PriorityClass with name nope was found'
    )
    assert "integer value of priority (5) must not be provided" in await message_of(world, PODS, pod("d", priority=5))


async def test_there_is_one_default_priority_class(world):
    await world.create(PRIORITIES, {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    spec = (await world.create(PODS, pod()))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 3)
    why = "PriorityClass usual is already marked as default. Only one default can exist"
    assert why in await message_of(world, PRIORITIES, {"metadata": {"name": "b"}, "globalDefault": True})
    await world.create(PRIORITIES, {"metadata": {"name": "b"}})
    assert (await world.patch(f"{PRIORITIES}/b", {"globalDefault": True})).status == 403
    deleted = await world.call("DELETE", f"{PRIORITIES}/system-node-critical")
    assert (deleted.status, "cannot be deleted" in deleted.json["message"]) == (403, True)


async def test_an_ingress_gets_the_newest_default_class(world):
    default = {"ingressclass.kubernetes.io/is-default-class": "true"}
    assert (
        "ingressClassName" not in (await world.create(INGRESSES, {"metadata": {"name": "a"}, "spec": BACKEND}))["spec"]
    )
    for name in ("old", "new"):
        metadata = {"name": name, "annotations": default}
        await world.create(INGRESS_CLASSES, {"metadata": metadata, "spec": {"controller": "a.io/b"}})
        world.clock.now += 10
    made = await world.create(INGRESSES, {"metadata": {"name": "b"}, "spec": BACKEND})
    assert (made["spec"]["ingressClassName"], made["metadata"]["generation"]) == ("new", 1)
    annotated = {"name": "c", "annotations": {"kubernetes.io/ingress.class": "x"}}
    answer = await world.call("POST", INGRESSES, {"metadata": annotated, "spec": BACKEND})
    assert "ingressClassName" not in answer.json["spec"]
    assert any("is deprecated, please use 'spec.ingressClassName' instead" in text for text in answer.header("warning"))
    changed = await world.patch(
        f"{INGRESSES}/b/status", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
    )
    assert changed.json["status"]["loadBalancer"]["ingress"] == [{"ip": "192.0.2.1"}]
    assert changed.json["metadata"]["generation"] == 1


async def test_a_pod_gets_the_overhead_of_its_runtime(world):
    scheduling: dict[str, Any] = {"nodeSelector": {"kvm": "yes"}, "tolerations": [{"key": "kvm", "operator": "Exists"}]}
    runtime = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    await world.create(RUNTIMES, {**runtime, "scheduling": scheduling})
    spec = (await world.create(PODS, pod(runtimeClassName="kata")))["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"kvm": "yes"})
    assert scheduling["tolerations"][0] in spec["tolerations"]
    refused = await message_of(world, PODS, pod("b", runtimeClassName="nope"))
    assert refused == 'pods "b" is forbidden: pod rejected: RuntimeClass "nope" not found'
    refused = await message_of(world, PODS, pod("b", overhead={"cpu": "1"}))
    assert "Pod Overhead set without corresponding RuntimeClass defined Overhead" in refused


async def test_an_ingress_without_a_controller_is_warned_of(world):
    """An ingress controller comes with its IngressClass."""
    unclassed = await world.call("POST", INGRESSES, {"metadata": {"name": "a"}, "spec": BACKEND})
    assert (unclassed.status, unclassed.header("warning")) == (
        201,
        ['299 - "nothing in this cluster acts on this Ingress, because this Ingress names no class; install an ingress '
         'controller, and name its class in spec.ingressClassName"'],
    )  # fmt: skip
    classed: dict[str, Any] = {"metadata": {"name": "b"}, "spec": {**BACKEND, "ingressClassName": "nginx"}}
    answer = await world.call("POST", INGRESSES, classed)
    assert "because it has no IngressClass nginx;" in answer.header("warning")[0]
    await world.create(INGRESS_CLASSES, {"metadata": {"name": "nginx"}, "spec": {"controller": "k8s.io/ingress-nginx"}})
    classed["metadata"]["name"] = "c"
    assert (await world.call("POST", INGRESSES, classed)).header("warning") == []
    annotated = {"name": "d", "annotations": {"kubernetes.io/ingress.class": "a-controller-without-a-class"}}
    answer = await world.call("POST", INGRESSES, {"metadata": annotated, "spec": BACKEND})
    assert [text for text in answer.header("warning") if "acts on" in text] == []
