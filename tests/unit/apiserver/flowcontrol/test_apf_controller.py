"""Flow control of a server: headers, refusals, conditions, changes of the configuration."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bridgehead.apiserver.flowcontrol.apf_controller import FlowControl
from bridgehead.apiserver.http.request_info import parse_request
from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.world import World, open_world

API = "/apis/flowcontrol.apiserver.k8s.io/v1"
BOB = User("bob", ("system:masters-of-nothing", "system:authenticated"))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        task = asyncio.create_task(world.parts.flow_control.run())
        yield world
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def level(name: str, shares: int = 1, **response: Any) -> dict[str, Any]:
    limited = {
        "nominalConcurrencyShares": shares,
        "borrowingLimitPercent": 0,
        "limitResponse": response or {"type": "Reject"},
    }
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


def schema(name: str, level: str, user: str = "bob") -> dict[str, Any]:
    rule = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
        ],
    }
    spec = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": 50, "rules": [rule]}
    return {"metadata": {"name": name}, "spec": spec}


async def until(condition: Callable[[], Any]) -> Any:
    async with asyncio.timeout(40):
        while True:
            if value := condition():
                return value
            await asyncio.sleep(0)


async def condition_of(world: World, name: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(40):
        while True:
            obj = await world.get(f"{API}/flowschemas/{name}")
            for one in obj.get("status", {}).get("conditions", ()):
                if one["status"] == status:
                    return one
            await asyncio.sleep(0)


def uids(answer: Any) -> tuple[str, str]:
    (flow,), (priority,) = (answer.header(f"x-kubernetes-pf-{kind}-uid") for kind in ("flowschema", "prioritylevel"))
    return flow, priority


async def test_answers_name_their_schema_and_level(world):
    await condition_of(world, "exempt", "False")
    exempt = [await world.get(f"{API}/{kind}/exempt") for kind in ("flowschemas", "prioritylevelconfigurations")]
    expected = tuple(obj["metadata"]["uid"] for obj in exempt)
    assert uids(await world.call("GET", "/api/v1/nodes")) == expected
    assert uids(await world.call("GET", "/api/v1/nodes/none")) == expected
    made = [
        await world.create(f"{API}/prioritylevelconfigurations", level("low")),
        await world.create(f"{API}/flowschemas", schema("bobs", "low")),
    ]
    condition = await condition_of(world, "bobs", "False")
    assert condition["reason"] == "Found"
    assert uids(await world.call("GET", "/version", user=BOB)) == tuple(obj["metadata"]["uid"] for obj in made[::-1])


async def test_a_schema_without_its_level_is_dangling_and_not_in_force(world):
    before = uids(await world.call("GET", "/version", user=BOB))
    await world.create(f"{API}/flowschemas", schema("bobs", "later"))
    condition = await condition_of(world, "bobs", "True")
    assert condition["reason"] == "NotFound"
    assert uids(await world.call("GET", "/version", user=BOB)) == before
    await world.create(f"{API}/prioritylevelconfigurations", level("later"))
    await condition_of(world, "bobs", "False")
    assert uids(await world.call("GET", "/version", user=BOB)) != before
    entries = (await world.get(f"{API}/flowschemas/bobs"))["metadata"]["managedFields"]
    assert ("api-priority-and-fairness-config-consumer-v1", "status") in [
        (entry["manager"], entry.get("subresource")) for entry in entries
    ]
    await world.call("DELETE", f"{API}/prioritylevelconfigurations/later")
    await condition_of(world, "bobs", "True")


async def test_a_schema_of_objects_without_a_namespace(world):
    """The stored rule has null for `namespaces`."""
    await world.create(f"{API}/prioritylevelconfigurations", level("low"))
    made = schema("bobs", "low")
    del made["spec"]["rules"][0]["resourceRules"][0]["namespaces"]
    made = await world.create(f"{API}/flowschemas", made)
    assert made["spec"]["rules"][0]["resourceRules"][0]["namespaces"] is None
    await condition_of(world, "bobs", "False")
    assert uids(await world.call("GET", "/api/v1/nodes", user=BOB))[0] == made["metadata"]["uid"]
    assert uids(await world.call("GET", "/api/v1/namespaces/a/pods", user=BOB))[0] != made["metadata"]["uid"]


async def test_a_full_level_refuses_with_429(world):
    await world.create(f"{API}/prioritylevelconfigurations", level("none", shares=0))
    await world.create(f"{API}/flowschemas", schema("bobs", "none"))
    await condition_of(world, "bobs", "False")
    answer = await world.call("GET", "/version", user=BOB)
    assert (answer.status, answer.body) == (429, b"Too many requests, please try again later.\n")
    assert answer.header("retry-after") == ["1"]
    assert uids(answer)
    metrics = (await world.call("GET", "/metrics")).body.decode()
    refused = 'apiserver_flowcontrol_rejected_requests_total{priority_level="none",reason="concurrency-limit"} 1.0'
    assert refused in metrics
    assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="global-default"} 49.0' in metrics
    terminations = [line for line in metrics.splitlines() if line.startswith("apiserver_request_terminations_total{")]
    assert [(line.count('code="429"'), line.rpartition(" ")[2]) for line in terminations] == [(1, "1.0")]


async def test_a_request_waits_for_a_seat_and_watches_keep_none(world):
    queuing = {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 1}}
    await world.create(f"{API}/prioritylevelconfigurations", level("one", shares=0, **queuing))
    await world.create(f"{API}/flowschemas", schema("admins", "one", user="kubernetes-admin"))
    # The administrator is exempt in any case; this user is not.
    await world.create(f"{API}/flowschemas", schema("bobs", "one"))
    await condition_of(world, "bobs", "False")
    control = world.parts.flow_control
    (one,) = [each for each in control.levels if each.name == "one"]
    waiting = asyncio.create_task(world.call("GET", "/version", user=BOB))
    await until(lambda: one.waiting == 1)
    assert (await world.call("GET", "/version", user=BOB)).status == 429
    await world.patch(f"{API}/prioritylevelconfigurations/one", {"spec": {"limited": {"nominalConcurrencyShares": 1}}})
    assert (await waiting).status == 200
    assert (one.taken, one.waiting) == (0, 0)
    exempt = next(each for each in control.levels if each.name == "exempt")
    watch = await world.watch("/api/v1/nodes")
    await until(lambda: exempt.taken == 0)
    await watch.leave()


async def test_invented_paths_leave_nothing_behind(world):
    control: FlowControl = world.parts.flow_control
    long = control.classify(BOB, parse_request("GET", "/" + "x" * 2000, {}))
    assert control.classify(BOB, parse_request("GET", "/" + "x" * 2000, {})) is not long
    for number in range(3000):
        control.classify(BOB, parse_request("GET", f"/{number}", {}))
    assert len(control._classes) <= 1024
    short = control.classify(BOB, parse_request("GET", "/short", {}))
    assert control.classify(BOB, parse_request("GET", "/short", {})) is short
