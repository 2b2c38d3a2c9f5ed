"""The HTTP connection's own limits, on sockets that never leave this process."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest

from bridgehead.apiserver.http.server import ApiServer, PeerProtocol


async def answer_ok(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch, seconds: float) -> AsyncIterator[int]:
    monkeypatch.setattr(PeerProtocol, "header_seconds", seconds)
    server = ApiServer(answer_ok, None, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        yield listener.getsockname()[1]
        server.stop()
        await serving


@pytest.mark.parametrize(
    ("seconds", "sent", "answer"),
    [
        (0.05, b"", b""),
        (0.05, b"GET / HTTP/1.1\r\nHost: x\r\n", b"HTTP/1.1 408 Request Timeout"),
        # A second request on the same connection has as long as the first, and no longer.
        (1.0, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n", b"HTTP/1.1 200 OK"),
    ],
)
async def test_a_client_that_does_not_finish_its_headers_is_sent_away(port: int, sent: bytes, answer: bytes) -> None:
    # What is sent is there before the server looks: no pause of a busy machine comes between.
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(sent)
    reader, writer = await asyncio.open_connection(sock=client)
    async with asyncio.timeout(20):
        received = await reader.read()
    assert received.partition(b"\r\n")[0] == answer
    assert received.count(b" 408 ") == (b"GET" in sent)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("seconds", [60.0])
async def test_a_connection_that_was_reset_does_not_stay_in_memory(port: int) -> None:
    for _ in range(5):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await asyncio.to_thread(client.recv, 1024)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        client.close()  # which resets it
    async with asyncio.timeout(20):
        while any(isinstance(found, PeerProtocol) for found in gc.get_objects()):
            await asyncio.sleep(0.05)
            gc.collect()
