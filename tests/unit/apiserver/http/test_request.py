"""Reading of a request's body."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import MutableMapping
from typing import Any

import pytest

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http import request
from bridgehead.apiserver.http.request import WHOLE_BODY, Request
from bridgehead.apiserver.http.request_info import parse_request
from bridgehead.apiserver.http.server import ApiServer
from bridgehead.apiserver.http.user import ANONYMOUS

POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"


async def receive_nothing() -> Any:
    await asyncio.Event().wait()


async def test_a_body_that_does_not_come_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "_BODY_SECONDS", 0.01)
    waiting = Request(parse_request("POST", "/", {}), "POST", {}, {}, ANONYMOUS, {"state": {}}, receive_nothing)
    with pytest.raises(ApiStatus) as refused:
        await waiting.body()
    assert refused.value.code == 504


async def test_a_body_is_marked_as_whole_only_when_it_is() -> None:
    marked: list[bool] = []
    has_begun = asyncio.Event()

    async def application(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        marked.append(WHOLE_BODY in scope["state"])
        has_begun.set()
        while (await receive())["more_body"]:
            pass
        marked.append(WHOLE_BODY in scope["state"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    server = ApiServer(application, None, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(40):
            for pieces in ((POST + b"body",), (POST + b"bo", b"dy")):
                has_begun.clear()
                for piece in pieces:
                    writer.write(piece)
                    await has_begun.wait()
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        server.stop()
        await serving
    assert marked == [True, True, False, True]
