"""Quotas with two servers on one store: never exceeded, and exact at the end, in any order of writes and counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from functools import cache
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.admission.attributes import CREATE, Attributes
from bridgehead.apiserver.build import ApiParts, ApiSettings, build_api
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.registry.deletion import DeleteOptions
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.resources import build_table
from bridgehead.storage import Change, Facts, Key, MemoryStore, Record
from bridgehead.storage.content import Batch
from bridgehead.storage.records import Write as StoreWrite
from tests.unit.apiserver.world import ADMIN, signing_key
from tests.unit.examples import examples

# The limits of two quotas, and how many objects may be created in one example.
HARD = {"low": 3, "high": 4}
SERVERS = 2


class SharedStore(MemoryStore):
    """The store of all servers, which keeps each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[list[Change]] = []

    def _publish(self, batch: Batch) -> None:
        super()._publish(batch)
        self.commits.append(batch.changes)


class Replica(MemoryStore):
    """A server's view of the shared store: it lags behind, and a write waits until the test lets it through."""

    def __init__(self, shared: SharedStore, waiting: list[asyncio.Future[None]]) -> None:
        super().__init__()
        self._shared, self._waiting, self._followed = shared, waiting, 0

    def follow(self) -> None:
        for changes in self._shared.commits[self._followed :]:
            self._state.apply(changes)
            self._history.publish(changes)
        self._followed = len(self._shared.commits)

    async def _write(self, write: StoreWrite) -> Record:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn
        try:
            return await self._shared._write(write)
        finally:
            self.follow()  # an answer comes when its server has what it is about


class Servers:
    """Two servers, which live through all examples. Each example has a namespace of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.shared, self.waiting = SharedStore(), list[asyncio.Future[None]]()
        self.replicas = [Replica(self.shared, self.waiting) for _ in range(SERVERS)]
        self.names = count()
        self.runner.run(self._build())

    async def _build(self) -> None:
        table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
        self.parts = [build_api(table, replica, ApiSettings(signing_key())) for replica in self.replicas]


@cache
def servers() -> Servers:
    return Servers()


class Example:
    """Writes and counts in one namespace."""

    def __init__(self, servers: Servers) -> None:
        self.servers, self.parts, self.shared = servers, servers.parts, servers.shared
        self.namespace = f"n{next(servers.names)}"
        self.running: set[asyncio.Task[Any]] = set()
        self.refusals: list[str] = []

    async def begin(self) -> None:
        namespace = {"metadata": {"name": self.namespace}, "status": {"phase": "Active"}}
        await self.shared.create(Key("namespaces", "", self.namespace), namespace, Facts())
        for name, hard in HARD.items():
            metadata = {"name": name, "namespace": self.namespace, "uid": name}
            quota = {"metadata": metadata, "spec": {"hard": {"configmaps": str(hard)}}}
            await self.shared.create(Key("resourcequotas", self.namespace, name), quota, Facts())
        await self.finish()

    async def finish(self) -> None:
        """Let everything through, and count until the counts are written."""
        await self.let_through()
        counting = self.start(self.parts[0].quota_usage.count_namespace(self.namespace))
        await self.let_through()
        assert counting.result()

    async def let_through(self) -> None:
        while self.running:
            await self.take(("commit", 0, 0))
        for replica in self.servers.replicas:
            replica.follow()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self.running.add(task)
        return task

    async def take(self, step: tuple[str, int, int]) -> None:
        """Take a step, and go on with what runs until all of it waits or is done."""
        what, server, number = step
        parts = self.parts[server]
        match what:
            case "create":
                self.start(self.create(parts, f"c{number}"))
            case "delete":
                self.start(self.delete(parts, f"c{number}"))
            case "count":
                self.start(parts.quota_usage.count_namespace(self.namespace))
            case "follow":
                self.servers.replicas[server].follow()
            case "commit" if self.servers.waiting:
                self.servers.waiting.pop(number % len(self.servers.waiting)).set_result(None)
        for _ in range(10):
            await asyncio.sleep(0)
        for task in {task for task in self.running if task.done()}:
            self.running.remove(task)
            task.result()

    async def create(self, parts: ApiParts, name: str) -> None:
        resource = parts.registry.table.by_id("configmaps")
        attributes = Attributes(CREATE, resource, "", self.namespace, name, ADMIN)
        write = Write(resource, self.namespace, attributes=attributes)
        await self.answer(parts.registry.create(write, {"metadata": {"name": name}}))

    async def delete(self, parts: ApiParts, name: str) -> None:
        write = Write(parts.registry.table.by_id("configmaps"), self.namespace, name)
        await self.answer(parts.registry.delete(write, DeleteOptions()))

    async def answer(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except ApiStatus as error:
            if error.code not in (403, 404, 409):
                raise
            self.refusals.append(str(error))

    def check(self, commits: list[list[Change]]) -> None:
        """After each commit, the quotas count what there is, or what was deleted just now, too."""
        objects: set[str] = set()
        used = dict.fromkeys(HARD, 0)
        for changes in commits:
            for change in changes:
                key = change.record.key
                if key.resource == "resourcequotas":
                    used[key.name] = self.used(change.record)
                elif change.type == "DELETED":
                    objects.remove(key.name)
                else:
                    objects.add(key.name)
            for name, hard in HARD.items():
                assert len(objects) <= used[name] <= hard

    def used(self, record: Record) -> int:
        return int(json.loads(record.value)["status"]["used"]["configmaps"])


steps = st.tuples(
    st.sampled_from(["create", "create", "delete", "count", "commit", "commit", "commit", "follow"]),
    st.integers(0, SERVERS - 1),
    st.integers(0, 4),
)


@pytest.mark.slow
@examples(60)
@given(st.lists(steps, min_size=5, max_size=40))
def test_two_servers_never_exceed_a_quota_and_end_with_an_exact_count(taken):
    world = servers()
    example = Example(world)

    async def run() -> None:
        await example.begin()
        began = len(world.shared.commits)
        for step in taken:
            await example.take(step)
        await example.finish()
        example.check(world.shared.commits[began:])
        left = len(world.shared.list("configmaps", example.namespace))
        assert [example.used(record) for record in world.shared.list("resourcequotas", example.namespace)] == [left] * 2

    world.runner.run(run())


def test_a_create_that_another_server_overtakes_charges_the_quota_again():
    world = servers()
    example = Example(world)

    async def run() -> None:
        await example.begin()
        for number in range(HARD["low"] + 1):
            await example.take(("create", number % SERVERS, number))
        assert len(world.waiting) == HARD["low"] + 1, "all of them wait, with charges of the same revision"
        await example.let_through()
        assert len(world.shared.list("configmaps", example.namespace)) == HARD["low"]
        (refusal,) = example.refusals
        assert "exceeded quota: low, requested: configmaps=1, used: configmaps=3, limited: configmaps=3" in refusal

    world.runner.run(run())


def test_a_count_that_a_charge_overtakes_is_made_again():
    world = servers()
    example = Example(world)

    async def run() -> None:
        await example.begin()
        began = len(world.shared.commits)
        for step in (("create", 0, 0), ("commit", 0, 0), ("delete", 0, 0), ("commit", 0, 0)):
            await example.take(step)
        await example.take(("count", 0, 0))
        await example.take(("follow", 1, 0))
        await example.take(("create", 1, 1))
        await example.take(("commit", 0, 1))
        assert len(world.waiting) == 1, "the count waits, with a status without the second object"
        await example.let_through()
        example.check(world.shared.commits[began:])
        assert [example.used(record) for record in world.shared.list("resourcequotas", example.namespace)] == [1, 1]

    world.runner.run(run())
