"""Watches by their older paths, and over WebSockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest

from tests.unit.apiserver.world import ADMIN, World, open_world

MAPS = "/api/v1/namespaces/default/configmaps"
WATCHED = "/api/v1/watch/namespaces/default/configmaps"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        await world.create(MAPS, {"metadata": {"name": "a", "labels": {"x": "y"}}})
        await world.create(MAPS, {"metadata": {"name": "b"}})
        yield world


def name_of(event: dict[str, Any] | None) -> str:
    assert event is not None
    return f"{event['type']} {event['object']['metadata']['name']}"


@pytest.mark.parametrize(
    ("url", "names"),
    [
        (WATCHED, ["a", "b"]),
        (f"{WATCHED}?labelSelector=x%3Dy", ["a"]),
        (f"{WATCHED}/b", ["b"]),
        (f"{WATCHED}/b?fieldSelector=metadata.name%3Db", ["b"]),
        ("/api/v1/watch/configmaps?fieldSelector=metadata.name%3Da", ["a"]),
        ("/api/v1/watch/namespaces/default", ["default"]),
    ],
)
async def test_the_older_paths(world: World, url: str, names: list[str]) -> None:
    watching = await world.watch(url)
    assert [name_of(await watching.next()) for _ in names] == [f"ADDED {name}" for name in names]
    await world.create(MAPS, {"metadata": {"name": "c"}})
    if url == WATCHED:
        assert name_of(await watching.next()) == "ADDED c"
    await watching.leave()


async def test_only_get_watches(world: World) -> None:
    assert (await world.call("POST", WATCHED, {})).status == 405
    refused = await world.call("GET", f"{WATCHED}/b?fieldSelector=metadata.name%3Da")
    assert (refused.status, refused.json["message"]) == (
        400,
        "fieldSelector metadata.name doesn't match requested name",
    )
    assert (await world.call("GET", "/api/v1/watch/nothing")).status == 404


class Socket:
    """A client's WebSocket for the application. `sent` are the messages that the server sends."""

    def __init__(self, world: World, url: str) -> None:
        self.sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._received.put_nowait({"type": "websocket.connect"})
        scope = world.scope("GET", url, {}, ADMIN)
        del scope["method"]
        scope |= {"type": "websocket", "extensions": {"websocket.http.response": {}}}
        self.task = asyncio.create_task(world.parts.application(scope, self._received.get, self.sent.put))

    async def next(self) -> MutableMapping[str, Any]:
        async with asyncio.timeout(40):
            return await self.sent.get()

    async def leave(self) -> None:
        self._received.put_nowait({"type": "websocket.receive", "text": "ignored"})
        self._received.put_nowait({"type": "websocket.disconnect", "code": 1001})
        async with asyncio.timeout(40):
            await self.task


@pytest.mark.parametrize("url", [f"{MAPS}?watch=true", WATCHED])
async def test_a_watch_over_a_websocket(world: World, url: str) -> None:
    socket = Socket(world, url)
    assert (await socket.next())["type"] == "websocket.accept"
    assert [name_of(json.loads((await socket.next())["text"])) for _ in range(2)] == ["ADDED a", "ADDED b"]
    await world.patch(f"{MAPS}/a", {"data": {"k": "v"}})
    assert name_of(json.loads((await socket.next())["text"])) == "MODIFIED a"
    await socket.leave()
    assert len(world.parts.watches) == 0


async def test_a_websocket_ends_with_its_watch_and_may_be_refused(world: World) -> None:
    socket = Socket(world, f"{WATCHED}/a?timeoutSeconds=1")
    assert [(await socket.next())["type"] for _ in range(3)] == [
        "websocket.accept",
        "websocket.send",
        "websocket.close",
    ]
    await socket.task
    refused = Socket(world, "/api/v1/watch/nothing")
    assert (await refused.next())["status"] == 404
