"""Streams of bytes on real sockets: both directions are independent, also under TLS, and neither accumulates."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from bridgehead.kubelet.server.port_copy import Input
from bridgehead.streaming.byte_stream import ByteStream
from bridgehead.streaming.socket_stream import SocketStream

from .api_world import DEADLINE
from .certificates import server_certificate

pytestmark = pytest.mark.integration

_BOUND = 64 << 20  # bytes; more than all buffers of a connection


@contextlib.asynccontextmanager
async def connection(tls: ssl.SSLContext | None) -> AsyncIterator[tuple[SocketStream, ByteStream]]:
    """A connection's client and its server."""
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[ByteStream] = loop.create_future()

    class Accepting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            accepted.set_result(ByteStream(transport))

    unverified = None
    if tls is not None:
        unverified = ssl.create_default_context()
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    server = await loop.create_server(Accepting, "127.0.0.1", 0, ssl=tls)
    client = await SocketStream.connect("127.0.0.1", server.sockets[0].getsockname()[1], unverified)
    far = await accepted
    try:
        async with asyncio.timeout(DEADLINE):
            yield client, far
    finally:
        client.close()
        far.abort()
        await far.wait_lost()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("size", [20_000, 2_000_000])
@pytest.mark.parametrize("is_secured", [False, True], ids=["tcp", "tls"])
async def test_bytes_come_whole_and_before_the_end(is_secured: bool, size: int) -> None:
    data = os.urandom(size)
    async with connection(server_certificate() if is_secured else None) as (client, far):

        async def send() -> None:
            await client.write(data)
            client.end()

        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(send())
            if size < 64 << 10:  # buffers take it, so the end is sent before the first bytes are taken
                await sending
            got = b""
            while piece := await far.read():
                got += piece
        assert got == data
        if not is_secured:  # asyncio's TLS has no open half
            await far.write(b"still here")
            assert await client.read() == b"still here"
            far.end()
            assert await client.read() == b""


@pytest.mark.parametrize("is_secured", [False, True], ids=["tcp", "tls"])
async def test_a_peer_that_reads_nothing_stops_the_writer(is_secured: bool) -> None:
    async with connection(server_certificate() if is_secured else None) as (client, far):
        for write in (client.write, far.write):
            sent = 0
            with contextlib.suppress(TimeoutError):
                while sent < _BOUND:
                    async with asyncio.timeout(0.5):
                        await write(b"x" * 200_000)
                    sent += 200_000
            assert sent < _BOUND


async def test_a_closed_peer_does_not_stop_the_writer_for_ever() -> None:
    async with connection(None) as (client, far):
        writing = asyncio.create_task(far.write(b"x" * _BOUND))
        await client.read()
        client.close()
        await writing
        await far.wait_lost()
        with pytest.raises(ConnectionResetError):
            await far.write(b"x")
        assert await far.read() == b""
    async with connection(None) as (client, far):
        far.abort()
        assert await client.read() == b""
        with pytest.raises(ConnectionError):
            await client.write(b"x" * _BOUND)


async def test_a_tls_connection_that_ends_badly_spares_the_others() -> None:
    """Errors of OpenSSL are kept for a thread, not for a connection."""
    certificate = server_certificate()
    async with connection(certificate) as (ending, far), connection(certificate) as (other, other_far):
        for client, server in ((ending, far), (other, other_far)):
            await server.write(b"begun")
            assert await client.read() == b"begun"  # so that nothing of the handshakes is left
        ending.end()
        far.abort()  # without TLS' own end, which OpenSSL answers with an alert
        assert await ending.read() == b""
        reading = asyncio.create_task(other.read())
        for _ in range(3):
            await asyncio.sleep(0)  # until it has found nothing, and waits
        await other_far.write(b"still here")
        assert await reading == b"still here"


async def test_both_directions_of_tls_are_used_at_once() -> None:
    data = os.urandom(3_000_000)
    async with connection(server_certificate()) as (client, far):

        async def receive(stream: SocketStream | ByteStream) -> bytes:
            got = b""
            while len(got) < len(data):
                got += await stream.read()
            return got

        _, _, *received = await asyncio.gather(client.write(data), far.write(data), receive(client), receive(far))
        assert received == [data, data]


async def test_failures_to_connect_are_raised() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await SocketStream.connect("127.0.0.1", unused.getsockname()[1])

    def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no TLS here\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ssl.SSLError):
            await SocketStream.connect("127.0.0.1", port, ssl.create_default_context())


async def test_input_of_a_port_waits_for_the_pod() -> None:
    given = Input()
    putting = asyncio.create_task(given.put(b"x" * 300_000))
    await asyncio.sleep(0)
    assert not putting.done()
    assert len(await given.get()) == 300_000
    await putting
    given.end()
    await given.put(b"after the end")
    assert await given.get() == b""
    dropped = Input()
    putting = asyncio.create_task(dropped.put(b"x" * 300_000))
    await asyncio.sleep(0)
    dropped.drop()
    await putting
    await dropped.put(b"x" * 300_000)
    assert await dropped.get() == b""
