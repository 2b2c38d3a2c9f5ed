"""Quotas and limit ranges at admission, and the status of quotas, in one server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.world import World, open_world

CORE = "/api/v1/namespaces/default"
PODS, SECRETS, SERVICES = (f"{CORE}/{name}" for name in ("pods", "secrets", "services"))
QUOTAS, RANGES = (f"{CORE}/{name}" for name in ("resourcequotas", "limitranges"))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        await world.create(f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})
        counting = asyncio.create_task(world.parts.quota_usage.run())
        yield world
        counting.cancel()


def pod(name="a", **resources):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "b", "resources": resources}]}}


def secret(name):
    return {"metadata": {"name": name}}


async def used(world, name="q"):
    status = (await world.call("GET", f"{QUOTAS}/{name}")).json.get("status", {})
    return status.get("used")


async def until_used(world, expected, name="q"):
    """Wait until the status has these amounts."""
    store = world.parts.registry.store
    watch = store.watch("resourcequotas", since=store.revision)
    try:
        async with asyncio.timeout(30):
            if await used(world, name) == expected:
                return
            async for _ in watch:
                if await used(world, name) == expected:
                    return
    finally:
        watch.close()


async def set_quota(world, **hard):
    await world.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    await until_used(world, dict.fromkeys(hard, "0"))


async def test_a_quota_counts_what_there_is_and_refuses_more(world):
    await world.create(SECRETS, secret("before"))
    await world.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"secrets": 2}}})
    await until_used(world, {"secrets": "1"})
    await world.create(SECRETS, secret("b"))
    assert await used(world) == {"secrets": "2"}
    answer = await world.call("POST", SECRETS, secret("c"))
    assert (answer.status, answer.json["message"]) == (
        403,
        'secrets "c" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=2, limited: secrets=2',
    )
    await world.call("DELETE", f"{SECRETS}/before")
    await until_used(world, {"secrets": "1"})
    await world.create(SECRETS, secret("c"))


async def test_requests_at_the_same_time_do_not_exceed_a_quota_together(world):
    await set_quota(world, **{"count/secrets": "3"})
    answers = await asyncio.gather(*(world.call("POST", SECRETS, secret(f"s{i}")) for i in range(8)))
    assert sorted(answer.status for answer in answers) == [201] * 3 + [403] * 5
    await until_used(world, {"count/secrets": "3"})


async def test_a_dry_run_is_checked_and_not_counted(world):
    await set_quota(world, secrets="1")
    assert (await world.call("POST", f"{SECRETS}?dryRun=All", secret("a"))).status == 201
    assert await used(world) == {"secrets": "0"}
    await world.create(SECRETS, secret("a"))
    assert (await world.call("POST", f"{SECRETS}?dryRun=All", secret("b"))).status == 403


async def test_only_stored_objects_are_counted_and_in_the_same_commit(world):
    await set_quota(world, secrets="5")
    await world.create(QUOTAS, {"metadata": {"name": "other"}, "spec": {"hard": {"count/secrets": "5"}}})
    await until_used(world, {"count/secrets": "0"}, "other")
    before = world.store.revision
    created = await world.create(SECRETS, secret("a"))
    assert (created["metadata"]["resourceVersion"], world.store.revision) == (str(before + 1), before + 3)
    assert [await used(world, name) for name in ("q", "other")] == [{"secrets": "1"}, {"count/secrets": "1"}]
    assert (await world.call("POST", SECRETS, secret("a"))).status == 409
    assert (await world.call("POST", SECRETS, secret("no name"))).status == 422
    assert [await used(world, name) for name in ("q", "other")] == [{"secrets": "1"}, {"count/secrets": "1"}]
    assert world.store.revision == before + 3


async def test_changes_are_charged_for_what_grows(world):
    await set_quota(world, **{"services.nodeports": "1"})
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    await world.create(SERVICES, service)
    assert (await world.patch(f"{SERVICES}/s?dryRun=All", {"spec": {"type": "NodePort"}})).status == 200
    assert await used(world) == {"services.nodeports": "0"}
    assert (await world.patch(f"{SERVICES}/s", {"spec": {"type": "NodePort"}})).status == 200
    assert await used(world) == {"services.nodeports": "1"}
    second = {"name": "b", "port": 81}
    answer = await world.patch(f"{SERVICES}/s", {"spec": {"ports": [{"name": "a", "port": 80}, second]}})
    refusal = "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodep"
    assert (answer.status, refusal in answer.json["message"]) == (403, True)
    await world.patch(f"{SERVICES}/s", {"spec": {"type": "ClusterIP"}})
    await until_used(world, {"services.nodeports": "0"})


async def test_the_status_follows_pods_specs_and_foreign_writes(world):
    await set_quota(world, pods="5", **{"requests.cpu": "1"})
    await world.create(PODS, pod(requests={"cpu": "300m"}))
    assert await used(world) == {"pods": "1", "requests.cpu": "300m"}
    await world.call("PUT", f"{PODS}/a/status", {**pod(), "status": {"phase": "Succeeded"}})
    await until_used(world, {"pods": "0", "requests.cpu": "0"})
    await world.patch(f"{QUOTAS}/q", {"spec": {"hard": {"requests.cpu": None}}})
    await until_used(world, {"pods": "0"})
    await world.patch(f"{QUOTAS}/q/status", {"status": {"hard": {"pods": "99"}, "used": {"pods": "7"}}})
    await until_used(world, {"pods": "0"})
    answer = await world.call("POST", PODS, pod("b", requests={"cpu": "1"}))
    assert answer.status == 201


async def test_pods_get_the_limits_of_their_namespace(world):
    limit = {"type": "Container", "max": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}
    await world.create(RANGES, {"metadata": {"name": "r"}, "spec": {"limits": [limit]}})
    created = await world.create(PODS, pod())
    (container,) = created["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}}
    assert created["status"]["qosClass"] == "Burstable"
    answer = await world.call("POST", PODS, pod("b", limits={"cpu": "1"}))
    assert (answer.status, answer.json["message"]) == (
        403,
        'pods "b" is forbidden: [maximum cpu usage per Container is 500m, but limit is 1]'.replace("[", "").replace(
            "]", ""
        ),
    )
