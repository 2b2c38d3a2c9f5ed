"""Several API servers on one etcd: a short chaos run, whose oracle has tests of its own, and definitions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from chaos.progress import log
from chaos.servers.answers import Answer
from chaos.servers.connections import Connections, open_session
from chaos.servers.injection import FaultKind, Faults
from chaos.servers.report import describe, judge
from chaos.servers.run import Options, run_servers

from .apiserver_process import ServerProcess, write_files
from .etcd_server import EtcdCluster
from .namespaced import in_namespace

GROUP = "example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@in_namespace
async def test_servers_stay_exact_when_one_of_them_and_the_leader_of_etcd_are_killed() -> None:
    faults = Faults((FaultKind.KILL_SERVER, FaultKind.KILL_LEADER), pause_seconds=1)
    seen = await run_servers(Options(writes=600, clients=16, servers=2, faults=faults), log)
    verdict = judge(seen)
    assert verdict.is_sound, "\n".join(describe(verdict))
    assert seen.recording.written >= 600


@dataclass
class Pair:
    """Two servers on one etcd, each with a client."""

    etcd: EtcdCluster
    one: Connections
    other: Connections

    async def define(self, plural: str) -> None:
        """Define a resource through one server, and return as soon as that server answers that it is Established."""
        names = {"plural": plural, "singular": plural, "kind": plural.title(), "listKind": f"{plural.title()}List"}
        spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version("size")]}
        answer = await self.one.send("POST", DEFINITIONS, {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec})
        assert answer.status == 201, answer
        async with asyncio.timeout(60):
            while not is_established(answer):
                answer = await self.one.send("GET", f"{DEFINITIONS}/{plural}.{GROUP}")

    async def create(self, plural: str, name: str, **spec: Any) -> Answer:
        """Create an object through the other server."""
        obj = {
            "apiVersion": f"{GROUP}/v1",
            "kind": plural.title(),
            "metadata": {"name": name},
            "spec": spec,
        }
        return await self.other.send("POST", f"/apis/{GROUP}/v1/{plural}", obj)


def version(*fields: str) -> dict[str, Any]:
    spec = {"type": "object", "properties": {field: {"type": "integer"} for field in fields}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": "v1", "served": True, "storage": True, "schema": schema}


def is_established(answer: Answer) -> bool:
    conditions = answer.body.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EtcdCluster, list[ServerProcess]]]:
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(EtcdCluster(tmp_path_factory.mktemp("etcd")).running())
        directory = tmp_path_factory.mktemp("servers")
        write_files(directory)
        started = []
        for _ in range(2):
            options: dict[str, object] = {"etcd-servers": etcd.client_urls[0]}
            server = ServerProcess(directory, store="", options=options)
            stack.callback(server.close)
            server.start()
            started.append(server)
        yield etcd, started


@pytest.fixture
async def pair(servers: tuple[EtcdCluster, list[ServerProcess]]) -> AsyncIterator[Pair]:
    etcd, started = servers
    async with open_session(started[0].context("admin")) as session:
        one, other = (Connections(session, [server.url], 0) for server in started)
        yield Pair(etcd, one, other)


async def test_an_established_resource_is_served_by_the_other_server_at_once(pair: Pair) -> None:
    for number in range(8):
        plural = f"widgets{number}"
        await pair.define(plural)
        if number % 2:
            found = await pair.other.send("GET", f"/apis/{GROUP}/v1")
            assert plural in {one["name"] for one in found.body["resources"]}
        answer = await pair.create(plural, "a", size=1)
        assert answer.status == 201, answer


async def test_a_new_schema_holds_at_the_other_server_at_once(pair: Pair) -> None:
    await pair.define("gadgets")
    fields = ["size"]
    for number in range(8):
        fields.append(f"field{number}")
        patch = {"spec": {"versions": [version(*fields)]}}
        answer = await pair.one.send("PATCH", f"{DEFINITIONS}/gadgets.{GROUP}", patch)
        assert answer.status == 200, answer
        created = await pair.create("gadgets", f"g{number}", **{f"field{number}": number})
        assert created.body["spec"] == {f"field{number}": number}


async def test_no_object_outlives_its_definition_whatever_the_other_server_does(pair: Pair) -> None:
    await pair.define("gizmos")
    statuses: list[int] = []

    async def create(client: int) -> None:
        for number in range(1000):
            answer = await pair.create("gizmos", f"g{client}-{number}", size=1)
            statuses.append(answer.status)
            if answer.status == 404:
                return

    async with asyncio.TaskGroup() as tasks, asyncio.timeout(60):
        for client in range(4):
            tasks.create_task(create(client))
        while statuses.count(201) < 8:  # noqa: ASYNC110 - the creates go on meanwhile
            await asyncio.sleep(0.01)
        await pair.one.send("DELETE", f"{DEFINITIONS}/gizmos.{GROUP}")
    assert set(statuses) >= {201, 404}
    assert (await pair.one.send("GET", f"{DEFINITIONS}/gizmos.{GROUP}")).status == 404
    assert pair.etcd.etcdctl("get", "--prefix", "--keys-only", f"/registry/{GROUP}/gizmos/").split() == []
