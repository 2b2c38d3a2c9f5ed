"""Two API servers on one store, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bridgehead.apiserver.build import ApiSettings, build_api
from bridgehead.apiserver.resources import build_table
from bridgehead.storage import Change, MemoryStore, Record
from bridgehead.storage.content import Batch
from bridgehead.storage.records import Write
from tests.unit.apiserver.world import World, open_world, signing_key


class Replica(MemoryStore):
    """A server's view of another store. It shows what others wrote only to those who ask for it."""

    def __init__(self, shared: MemoryStore) -> None:
        super().__init__()
        self._shared = shared
        self._state.load(shared._state.all(), shared.revision)
        self._history.begin(shared.revision)
        self._commits: list[list[Change]] = []

        def publish(batch: Batch) -> None:
            MemoryStore._publish(shared, batch)
            self._commits.append(batch.changes)

        shared._publish = publish

    async def catch_up(self) -> None:
        commits, self._commits = self._commits, []
        for changes in commits:
            self._state.apply(changes)
            self._history.publish(changes)

    async def _write(self, write: Write) -> Record:
        try:
            return await self._shared._write(write)
        finally:
            await self.catch_up()


@asynccontextmanager
async def two_servers() -> AsyncIterator[tuple[World, World]]:
    """A server with its controllers, and one that has none and sees only what it asks for."""
    async with open_world() as one:
        assert isinstance(one.store, MemoryStore)
        replica = Replica(one.store)
        table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
        parts = build_api(table, replica, ApiSettings(signing_key(), clock=one.clock))
        try:
            yield one, World(parts, replica, one.clock)
        finally:
            await parts.close()
