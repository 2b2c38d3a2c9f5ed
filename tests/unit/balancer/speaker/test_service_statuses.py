"""When a speaker lists the statuses of other nodes."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncGenerator
from typing import Any

from bridgehead.balancer.announcer import Held
from bridgehead.balancer.speaker.service_statuses import LAYER2, ServiceStatuses
from bridgehead.client.codec import ListResult
from bridgehead.objects.meta import ObjectKey

SERVICE = ObjectKey("default", "web")


class Server:
    """An API server without objects, which counts the lists of all nodes' objects."""

    def __init__(self) -> None:
        self.lists = 0
        self.has_listed = asyncio.Event()

    async def list(self, kind: Any, *selection: str, label_selector: str = "") -> ListResult[Any]:
        if label_selector:  # the informer passes its selection by position
            self.lists += 1
            self.has_listed.set()
        return ListResult()

    async def watch(self, *selection: Any, **options: Any) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield

    async def create(self, *arguments: Any) -> None:
        return None

    patch = create


async def test_a_speaker_without_addresses_does_not_list_the_statuses_of_other_nodes() -> None:
    server: Any = Server()
    statuses = ServiceStatuses(LAYER2, server, "node1", "metallb-system", lambda: ("node1",))
    running = asyncio.create_task(statuses.run())
    try:
        for _ in range(3):
            statuses.members_changed()
        await asyncio.sleep(0.5)  # longer than a sweep waits
        assert server.lists == 0
        statuses.set_held(SERVICE, (Held(ipaddress.ip_address("10.0.0.100"), SERVICE, "layer2", 0.0, ("eth0",)),))
        async with asyncio.timeout(40):
            await server.has_listed.wait()
    finally:
        running.cancel()
        await asyncio.wait([running])
