"""Watches and logs over WebSockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, MutableMapping
from typing import Any

import pytest

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.request import Response
from bridgehead.apiserver.http.request_info import parse_request
from bridgehead.apiserver.http.sending import Sender
from bridgehead.apiserver.http.socket_streams import choose_protocol, is_stream, send_over_socket
from bridgehead.apiserver.http.unsent import UnsentBudget
from tests.unit.apiserver.world import ADMIN, Reader, World, open_world

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = parse_request("GET", CONFIG_MAPS, {"watch": "true"})
LOG = parse_request("GET", "/api/v1/namespaces/default/pods/p/log", {})


@pytest.mark.parametrize(
    ("info", "offered", "protocol"),
    [
        (WATCH, [], None),
        (WATCH, ["base64url.bearer.authorization.k8s.io.dG9rZW4", "any"], "any"),
        (LOG, [], None),
        (LOG, ["x", "base64.binary.k8s.io", "binary.k8s.io"], "base64.binary.k8s.io"),
    ],
)
def test_a_subprotocol_is_chosen(info, offered, protocol):
    assert choose_protocol(info, offered) == protocol


def test_a_log_has_two_subprotocols():
    with pytest.raises(ApiStatus, match=r"offered here are binary\.k8s\.io, base64\.binary\.k8s\.io"):
        choose_protocol(LOG, ["v4.channel.k8s.io"])
    assert not is_stream(parse_request("GET", "/api/v1/namespaces/default/pods/p/exec", {}))


class Log:
    """A log that ends."""

    held_bytes = 0

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        yield b"one\ntwo\n"
        yield b"three\n"

    async def aclose(self) -> None: ...


class Socket:
    """A client's WebSocket. `receive` waits after the first message until `leave` is called."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._received.put_nowait({"type": "websocket.connect"})

    async def receive(self) -> dict[str, Any]:
        return await self._received.get()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.put_nowait(message)

    async def next(self) -> MutableMapping[str, Any]:
        async with asyncio.timeout(40):
            return await self.sent.get()

    def leave(self) -> None:
        self._received.put_nowait({"type": "websocket.disconnect"})


@pytest.mark.parametrize(
    ("protocol", "frames"),
    [
        ("binary.k8s.io", [{"bytes": b"one\ntwo\n"}, {"bytes": b"three\n"}]),
        ("base64.binary.k8s.io", [{"text": "b25lCnR3bwo="}, {"text": "dGhyZWUK"}]),
    ],
)
async def test_a_log_is_sent_in_messages_and_closed(protocol, frames):
    socket, scope = Socket(), {"path": "/x", "state": {"connection": Reader()}}
    response = Response(200, content_type="text/plain", stream=Log())
    sender = Sender(UnsentBudget())
    await send_over_socket(sender, response, protocol, socket.receive, socket.send, scope)
    assert await socket.next() == {"type": "websocket.accept", "subprotocol": protocol}
    for frame in frames:
        assert await socket.next() == {"type": "websocket.send", **frame}
    assert await socket.next() == {"type": "websocket.close", "code": 1000}


def connect(world: World, url: str) -> tuple[Socket, asyncio.Task[None]]:
    scope = world.scope("GET", url, {"upgrade": "websocket"}, ADMIN)
    scope |= {"type": "websocket", "subprotocols": [], "extensions": {"websocket.http.response": {}}}
    del scope["method"]
    socket = Socket()
    return socket, asyncio.create_task(world.parts.application(scope, socket.receive, socket.send))


async def test_a_watch_sends_an_event_in_each_message_until_the_client_leaves():
    async with open_world() as world:
        await world.create(CONFIG_MAPS, {"metadata": {"name": "one"}})
        await world.create(CONFIG_MAPS, {"metadata": {"name": "two"}})
        socket, task = connect(world, f"{CONFIG_MAPS}?watch=true")
        assert (await socket.next())["type"] == "websocket.accept"
        names = [json.loads((await socket.next())["text"])["object"]["metadata"]["name"] for _ in range(2)]
        assert names == ["one", "two"]
        await world.call("DELETE", f"{CONFIG_MAPS}/one")
        assert json.loads((await socket.next())["text"])["type"] == "DELETED"
        socket.leave()
        async with asyncio.timeout(40):
            await task
        assert len(world.parts.watches) == 0


async def test_a_watch_that_is_refused_is_no_websocket():
    async with open_world() as world:
        for url, code in ((f"{CONFIG_MAPS}?watch=true&labelSelector=%3D", 400), (CONFIG_MAPS, 404)):
            socket, task = connect(world, url)
            started = await socket.next()
            assert (started["type"], started["status"]) == ("websocket.http.response.start", code)
            await task
