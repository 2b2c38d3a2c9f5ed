"""Acceptance of connections, on loopback sockets: the bound on clients that are not authenticated."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from bridgehead.apiserver.http.accepting import Acceptor, Newcomer, Newcomers

LIMIT = 3
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo(asyncio.Protocol):
    """Sends back what it receives. The client is authenticated by sending `me`."""

    def __init__(self, newcomer: Newcomer) -> None:
        self._newcomer = newcomer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._newcomer.close = transport.abort

    def data_received(self, data: bytes) -> None:
        if data == b"me":
            self._newcomer.leave()
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._newcomer.leave()


class World:
    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        self.newcomers = Newcomers(LIMIT)
        self._address = listener.getsockname()
        self.acceptor = Acceptor(listener, context, Echo, self.newcomers)
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection(*self._address)
        self._writers.append(writer)
        return reader, writer

    async def until_newcomers(self, count: int) -> None:
        async with asyncio.timeout(30):
            while True:
                if len(self.newcomers) == count:
                    return
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        self.acceptor.close()
        async with asyncio.timeout(30):
            await self.acceptor.wait_closed()
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def opened(context: ssl.SSLContext | None = None) -> AsyncIterator[World]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        world = World(listener, context)
        try:
            yield world
        finally:
            await world.close()


async def is_closed(client: Client) -> bool:
    """Wait until the server has closed the connection."""
    async with asyncio.timeout(30):
        with contextlib.suppress(ConnectionError):
            return await client[0].read() == b""
    return True


async def exchange(client: Client, text: bytes) -> None:
    client[1].write(text)
    async with asyncio.timeout(30):
        assert await client[0].readexactly(len(text)) == text


async def _serve_and_close(acceptor: Acceptor, client: Client) -> None:
    await exchange(client, b"hello")
    acceptor.close()
    await acceptor.wait_closed()
    client[1].close()
    await client[1].wait_closed()


async def test_the_oldest_unauthenticated_connections_are_closed():
    async with opened() as world:
        clients = []
        for _ in range(LIMIT + 2):
            clients.append(await world.connect())
            await exchange(clients[-1], b"hello")
        assert len(world.newcomers) == LIMIT
        for client in clients[:2]:
            assert await is_closed(client)
        for client in clients[2:]:
            await exchange(client, b"still here")


async def test_authenticated_and_closed_connections_do_not_count():
    async with opened() as world:
        known = []
        for _ in range(2 * LIMIT):
            known.append(await world.connect())
            await exchange(known[-1], b"me")
        assert len(world.newcomers) == 0
        unknown = [await world.connect() for _ in range(LIMIT)]
        await world.until_newcomers(LIMIT)
        unknown[0][1].close()
        await world.until_newcomers(LIMIT - 1)
        await exchange(await world.connect(), b"hello")
        for client in (*known, *unknown[1:]):
            await exchange(client, b"still here")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_handshakes_count_and_fail_alone(run: Callable[[Coroutine[Any, Any, None]], None]):
    run(_begin_handshakes())


async def _begin_handshakes() -> None:
    async with opened(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) as world:
        silent = [await world.connect() for _ in range(LIMIT + 1)]
        assert await is_closed(silent[0])
        await world.until_newcomers(LIMIT)
        silent[1][1].write(b"GET / HTTP/1.1\r\n\r\n")  # which is no TLS
        with contextlib.suppress(ConnectionError):
            await silent[1][0].read()  # an alert, perhaps
        await world.until_newcomers(LIMIT - 1)
        silent[2][1].transport.abort()
        await world.until_newcomers(LIMIT - 2)


class _Failing:
    """A listening socket whose `accept` fails, as if the process had no more descriptors, until `has_room`."""

    def __init__(self, listener: socket.socket, error: int = errno.EMFILE) -> None:
        self._listener = listener
        self._error = error
        self.has_room = False
        self.refused = asyncio.Event()

    def accept(self) -> tuple[socket.socket, object]:
        if not self.has_room:
            self.refused.set()
            raise OSError(self._error, os.strerror(self._error))
        return self._listener.accept()

    def fileno(self) -> int:
        return self._listener.fileno()

    def setblocking(self, flag: bool) -> None:
        self._listener.setblocking(flag)


async def test_without_descriptors_the_oldest_connection_makes_room(caplog: pytest.LogCaptureFixture):
    """Without such a connection, the server waits a little."""
    closed = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        exhausted, newcomers = _Failing(listener), Newcomers()
        newcomers.add(closed.set)
        acceptor = Acceptor(exhausted, None, Echo, newcomers)  # type: ignore[arg-type]
        client = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(30):
            await closed.wait()
            while True:
                if "can't accept connections for now: Too many open files" in caplog.text:
                    break
                await asyncio.sleep(0.001)
        exhausted.has_room = True
        await _serve_and_close(acceptor, client)


@pytest.mark.parametrize("error", [errno.ENETDOWN, errno.EPROTO, errno.ECONNABORTED, errno.EPERM])
async def test_a_connection_with_a_network_error_does_not_end_the_acceptance(
    error: int, caplog: pytest.LogCaptureFixture
):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        failing = _Failing(listener, error)
        acceptor = Acceptor(failing, None, Echo, Newcomers())  # type: ignore[arg-type]
        client = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(30):
            await failing.refused.wait()
        failing.has_room = True
        await _serve_and_close(acceptor, client)
    assert not caplog.records
