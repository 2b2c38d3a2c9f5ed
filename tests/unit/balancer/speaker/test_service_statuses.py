"""When a speaker lists the statuses of other nodes, and follows those of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from bridgehead.balancer.announcer import Held
from bridgehead.balancer.speaker.service_statuses import (
    LAYER2,
    NAME_LABEL,
    NAMESPACE_LABEL,
    NODE_LABEL,
    ServiceStatuses,
)
from bridgehead.client.codec import ListResult
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from bridgehead.objects.metallb import ServiceL2Status

SERVICE = ObjectKey("default", "web")


class Server:
    """An API server with the objects `own` of node1, which counts watches, and the lists of all nodes' objects."""

    def __init__(self, own: tuple[ServiceL2Status, ...] = ()) -> None:
        self.own = own
        self.lists = self.watches = 0
        self.has_looked = asyncio.Event()  # for objects of an earlier run
        self.has_listed = asyncio.Event()
        self.has_deleted = asyncio.Event()

    async def list(self, kind: Any, *selection: str, label_selector: str = "", limit: int = 0) -> ListResult[Any]:
        if limit:
            self.has_looked.set()
        elif label_selector:  # the informer passes its selection by position
            self.lists += 1
            self.has_listed.set()
            return ListResult()
        return ListResult(items=list(self.own))

    async def watch(self, *selection: Any, **options: Any) -> AsyncGenerator[Any, None]:
        self.watches += 1
        await asyncio.Event().wait()
        yield

    async def create(self, *arguments: Any, **options: Any) -> None:
        return None

    patch = create

    async def delete(self, kind: Any, name: str, *arguments: str, uid: str) -> None:
        assert uid == "u1"
        self.has_deleted.set()


@contextlib.asynccontextmanager
async def reporting(server: Any) -> AsyncIterator[ServiceStatuses[ServiceL2Status]]:
    statuses = ServiceStatuses(LAYER2, server, "node1", "metallb-system", lambda: ("node1",))
    running = asyncio.create_task(statuses.run())
    try:
        async with asyncio.timeout(40):
            yield statuses
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_speaker_without_addresses_does_not_list_the_statuses_of_other_nodes() -> None:
    server = Server()
    async with reporting(server) as statuses:
        for _ in range(3):
            statuses.members_changed()
        await asyncio.sleep(0.5)  # longer than a sweep waits
        assert server.has_looked.is_set()
        assert server.lists == server.watches == 0
        statuses.set_held(SERVICE, (Held(ipaddress.ip_address("10.0.0.100"), SERVICE, "layer2", 0.0, ("eth0",)),))
        await server.has_listed.wait()
        assert server.watches == 1


async def test_objects_of_an_earlier_run_are_deleted() -> None:
    labels = {NODE_LABEL: "node1", NAME_LABEL: "web", NAMESPACE_LABEL: "default"}
    left = ServiceL2Status(metadata=ObjectMeta(name="l2-old", namespace="metallb-system", uid="u1", labels=labels))
    server = Server((left,))
    async with reporting(server):
        await server.has_deleted.wait()
