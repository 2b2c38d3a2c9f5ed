"""Concurrent writers on the durable store: no value is allocated twice, and no write is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.apiserver.bootstrap import ensure_system_objects
from bridgehead.apiserver.build import ApiParts, ApiSettings, build_api
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.kubernetes_service import KubernetesService
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.server_leases import OnlyServer
from bridgehead.storage import Key, open_store
from bridgehead.storage.sqlite import Database

from .api_world import SIGNING_KEY

pytestmark = pytest.mark.integration

ADMIN = User("admin", ("system:masters",))
SERVICES = "/api/v1/namespaces/default/services"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
QUOTA = {"hard": {"configmaps": "1"}}


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[ApiParts]:
    store = open_store(f"sqlite://{tmp_path}/state.db")
    # 14 addresses, so that a race for them is likely.
    table = build_table(service_cidrs=("10.96.0.0/28",), node_port_range=(30000, 30009))
    parts = build_api(table, store, ApiSettings(SIGNING_KEY))
    await ensure_system_objects(parts.registry, KubernetesService(parts.registry, "10.96.0.1", None, OnlyServer()))
    try:
        yield parts
    finally:
        await parts.close()
        await store.close()


async def call(parts: ApiParts, method: str, path: str, body: Any, type: str = "application/json") -> tuple[int, Any]:
    raw = json.dumps(body).encode()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", type.encode())],
        "state": {"peer": ADMIN},
    }
    await parts.application(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def service(name: str, **port: int) -> dict[str, Any]:
    spec = {"type": "NodePort" if port else "ClusterIP", "ports": [{"port": 80, **port}]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_concurrent_creates_never_share_a_node_port(parts):
    answers = await asyncio.gather(
        *(call(parts, "POST", SERVICES, service(f"s{i}", nodePort=30005)) for i in range(10))
    )
    assert sorted(status for status, _ in answers) == [201] + [422] * 9
    refused = next(body for status, body in answers if status == 422)
    assert "provided port is already allocated" in refused["message"]


async def test_concurrent_creates_never_share_an_address(parts):
    answers = await asyncio.gather(*(call(parts, "POST", SERVICES, service(f"s{i}")) for i in range(20)))
    given = [body["spec"]["clusterIP"] for status, body in answers if status == 201]
    # 10.96.0.1 is the API's own; the network's own address and the last one are never given.
    assert sorted(given) == sorted(f"10.96.0.{i}" for i in range(2, 15))
    full = "Internal error occurred: failed to allocate a serviceIP: range is full"
    assert {(status, body["message"]) for status, body in answers if status != 201} == {(500, full)}
    await call(parts, "DELETE", f"{SERVICES}/{answers[0][1]['metadata']['name']}", {})
    status, body = await call(parts, "POST", SERVICES, service("again"))
    assert (status, body["spec"]["clusterIP"]) == (201, answers[0][1]["spec"]["clusterIP"])


async def test_concurrent_patches_are_all_applied(parts, monkeypatch):
    await call(parts, "POST", CONFIG_MAPS, {"metadata": {"name": "one"}})
    commits: list[int] = []
    commit = Database.commit

    def counted(database: Database, changes: list[Any]) -> None:
        commits.append(len(changes))
        commit(database, changes)

    monkeypatch.setattr(Database, "commit", counted)
    patches = [{"data": {f"k{i}": "v"}} for i in range(40)]
    answers = await asyncio.gather(
        *(call(parts, "PATCH", f"{CONFIG_MAPS}/one", patch, "application/merge-patch+json") for patch in patches)
    )
    assert {status for status, _ in answers} == {200}
    _, config_map = await call(parts, "GET", f"{CONFIG_MAPS}/one", {})
    assert set(config_map["data"]) == {f"k{i}" for i in range(40)}
    assert sum(commits) == 40
    assert len(commits) < 10, "a patch need not wait until the one before it is durable"


async def test_concurrent_creates_of_one_name_succeed_once(parts):
    answers = await asyncio.gather(
        *(call(parts, "POST", CONFIG_MAPS, {"metadata": {"name": "one"}}) for _ in range(10))
    )
    assert sorted(status for status, _ in answers) == [201] + [409] * 9


async def test_concurrent_creates_never_exceed_a_quota_nor_write_it_apart(parts):
    quotas = "/api/v1/namespaces/default/resourcequotas"
    await call(parts, "POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "20"}}})
    await parts.quota_usage.count_namespace("default")
    before = parts.registry.store.revision
    answers = await asyncio.gather(
        *(call(parts, "POST", CONFIG_MAPS, {"metadata": {"name": f"c{i}"}}) for i in range(64))
    )
    assert sorted(status for status, _ in answers) == [201] * 20 + [403] * 44
    _, quota = await call(parts, "GET", f"{quotas}/q", {})
    assert (quota["status"]["used"], parts.registry.store.revision) == ({"configmaps": "20"}, before + 40)


async def test_a_quota_is_counted_while_it_is_charged_all_the_time(parts):
    """Deletes lower `used` although there is always a charge that is not durable yet."""
    quotas, key = "/api/v1/namespaces/default/resourcequotas", Key("resourcequotas", "default", "q")
    store, statuses, ended = parts.registry.store, [], asyncio.Event()
    await call(parts, "POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "100k"}}})
    await call(parts, "POST", CONFIG_MAPS, {"metadata": {"name": "gone"}})
    await parts.quota_usage.count_namespace("default")

    async def keep_creating() -> None:
        while not ended.is_set() and len(statuses) < 900:
            status, _ = await call(parts, "POST", CONFIG_MAPS, {"metadata": {"generateName": "c"}})
            statuses.append(status)

    creating = [asyncio.create_task(keep_creating()) for _ in range(8)]
    await call(parts, "DELETE", f"{CONFIG_MAPS}/gone", {})
    while store.latest(key) is store.get(key):  # noqa: ASYNC110 - a look at each turn of the loop
        await asyncio.sleep(0)
    is_counted = await parts.quota_usage.count_namespace("default")
    ended.set()
    await asyncio.gather(*creating)
    assert is_counted
    _, quota = await call(parts, "GET", f"{quotas}/q", {})
    assert set(statuses) == {201}
    assert quota["status"]["used"] == {"configmaps": str(len(statuses))}


async def test_a_quota_that_is_counted_again_has_admitted_objects(parts):
    """The objects include those whose admission is written, but not durable yet."""
    quotas, key = "/api/v1/namespaces/default/resourcequotas", Key("resourcequotas", "default", "q")
    await call(parts, "POST", quotas, {"metadata": {"name": "q"}, "spec": QUOTA})
    await parts.quota_usage.count_namespace("default")
    before = parts.registry.store.get(key)
    first = asyncio.create_task(call(parts, "POST", CONFIG_MAPS, {"metadata": {"name": "first"}}))
    while parts.registry.store.latest(key) is before:  # noqa: ASYNC110 - a look at each turn of the loop
        await asyncio.sleep(0)
    assert parts.registry.store.get(key) is before
    await parts.quota_usage.count_namespace("default")
    assert (await first)[0] == 201
    status, body = await call(parts, "POST", CONFIG_MAPS, {"metadata": {"name": "second"}})
    assert (status, body["message"].partition(":")[0]) == (403, 'configmaps "second" is forbidden')
