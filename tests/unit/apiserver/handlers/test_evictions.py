"""Evictions: what budgets allow, and what is left of it afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.apiserver.world import World, open_world

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
WHEN = "2026-01-01T00:00:00Z"
ALLOWED = {"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "lastTransitionTime": WHEN}
FAILED = {**ALLOWED, "status": "False", "reason": "SyncFailed", "message": "no scale"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        await world.create(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        yield world


async def add_pod(world: World, name: str = "a", phase: str = "Running", ready: str = "True") -> None:
    spec = {"nodeName": "node1", "containers": [{"name": "main", "image": "b"}]}
    await world.create(PODS, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    assert (await world.patch(f"{PODS}/{name}/status", {"status": status})).status == 200


async def add_budget(world: World, name: str = "b", spec: Any = None, **status: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **(spec or {})}}
    await world.create(BUDGETS, body)
    status = {"observedGeneration": 1, **status}
    assert (await world.patch(f"{BUDGETS}/{name}/status", {"status": status})).status == 200


async def evict(world: World, name: str = "a", **options: Any) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
    return await world.call("POST", f"{PODS}/{name}/eviction", body)


async def is_terminating(world: World, name: str = "a") -> bool:
    return "deletionTimestamp" in (await world.call("GET", f"{PODS}/{name}")).json["metadata"]


@pytest.mark.parametrize(
    ("status", "code", "cause", "retry"),
    [
        ({"observedGeneration": 0}, 429, "The disruption budget b is still being processed by the server.", ["10"]),
        ({"desiredHealthy": 2, "currentHealthy": 2}, 429,
         "The disruption budget b needs 2 healthy pods and has 2 currently", []),
        ({"desiredHealthy": 1, "currentHealthy": 2}, 429,
         "The disruption budget b does not allow evicting pods currently", []),
        ({"conditions": [FAILED]}, 429,
         "The disruption budget b does not allow evicting pods currently because it failed sync: no scale", []),
        ({"disruptionsAllowed": 1, "disruptedPods": {f"p{i}": "2026-01-01T00:00:00Z" for i in range(2001)}}, 403,
         "The disruption budget b does not allow evicting pods currently: DisruptedPods map too big - too many "
         "evictions not confirmed by PDB controller", []),
    ],
)  # fmt: skip
async def test_a_budget_refuses(world, status, code, cause, retry):
    await add_pod(world)
    await add_budget(world, **status)
    answer = await evict(world)
    assert answer.status == code, answer.body
    assert answer.json["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    assert answer.header("retry-after") == retry
    if code == 429:
        assert (answer.json["message"], answer.json["reason"]) == (REFUSED, "TooManyRequests")
    assert not await is_terminating(world)


async def test_an_eviction_may_be_of_its_older_version(world):
    await add_pod(world)
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert (await world.call("POST", f"{PODS}/a/eviction", body)).status == 201
    body["apiVersion"] = "policy/v2"
    assert (await world.call("POST", f"{PODS}/a/eviction", body)).status == 400


async def test_an_eviction_takes_one_disruption(world):
    await add_pod(world)
    await add_pod(world, "other")
    await add_budget(world, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1, conditions=[ALLOWED])
    assert (await evict(world, dryRun=["All"])).status == 201
    assert (await world.call("GET", f"{BUDGETS}/b")).json["status"]["disruptionsAllowed"] == 1
    assert not await is_terminating(world)
    assert (await evict(world)).status == 201
    status = (await world.call("GET", f"{BUDGETS}/b")).json["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["a"])
    assert [(one["status"], one["reason"]) for one in status["conditions"]] == [("False", "InsufficientPods")]
    pod = (await world.call("GET", f"{PODS}/a")).json
    assert "deletionTimestamp" in pod["metadata"]
    (target,) = (one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget")
    assert (target["reason"], target["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")
    assert (await evict(world, "other")).status == 429
    # The budget refuses it, which is no self-defense of the server.
    assert "apiserver_request_terminations_total{" not in (await world.call("GET", "/metrics")).body.decode()
    assert (await evict(world)).status == 201  # a pod that is being deleted already


@pytest.mark.parametrize(
    ("phase", "ready", "policy", "counts", "code"),
    [
        ("Pending", "False", {}, {}, 201),
        ("Succeeded", "False", {}, {}, 201),
        ("Running", "False", {}, {}, 429),
        ("Running", "False", {}, {"currentHealthy": 1, "desiredHealthy": 1}, 201),
        ("Running", "False", {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, {"desiredHealthy": 1}, 429),
        ("Running", "False", {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {"desiredHealthy": 1}, 201),
        ("Running", "True", {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {"desiredHealthy": 1}, 429),
    ],
)
async def test_pods_that_are_not_healthy(world, phase, ready, policy, counts, code):
    await add_pod(world, phase=phase, ready=ready)
    await add_budget(world, spec=policy, **counts)
    assert (await evict(world)).status == code


async def test_several_budgets_and_none(world):
    await add_pod(world)
    await add_budget(world, "b", disruptionsAllowed=1)
    await add_budget(world, "c", disruptionsAllowed=1)
    answer = await evict(world)
    assert (answer.status, answer.json["message"]) == (
        500,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    )
    for name in ("b", "c"):
        await world.call("DELETE", f"{BUDGETS}/{name}")
    await add_budget(world, "d", spec={"selector": {"matchLabels": {"app": "db"}}})
    answer = await evict(world, preconditions={"uid": "other"})
    assert answer.status == 409, "a precondition still counts"
    assert (await evict(world)).status == 201
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}}
    answer = await world.call("POST", f"{PODS}/a/eviction", body)
    assert (answer.status, answer.json["message"]) == (400, "name in URL does not match name in Eviction object")
