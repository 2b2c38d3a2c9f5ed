"""A SOCKS5 and HTTP proxy whose connections begin in the network namespace of this process.

Both protocols come to one port: the first byte of SOCKS5 is 5, and that of HTTP a letter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from . import http_requests, socks
from .names import Names, Unresolved

log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 10.0
_MOST_CONNECTIONS: Final = 1024
_BUFFER_BYTES: Final = 64 * 1024


class Stream(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _NotReached(Exception):
    """No connection to the target: refused (True) or not answered. The text is the reason."""

    def __init__(self, reason: str, is_refused: bool = False) -> None:
        super().__init__(reason)
        self.is_refused = is_refused


class Tunnel:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._open = 0

    @contextlib.asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve at a listening socket during the block."""
        server = await asyncio.start_server(self._serve, sock=listener, limit=http_requests.MOST_BYTES)
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Stream(reader, writer)
        try:
            if self._open >= _MOST_CONNECTIONS:
                return
            self._open += 1
            try:
                await self._relay(client)
            finally:
                self._open -= 1
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError) as error:
            log.debug("a client's connection ended: %s", error)
        finally:
            writer.close()

    async def _relay(self, client: Stream) -> None:
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            first = await client.reader.readexactly(1)
            server = await (self._open_socks(client) if first[0] == socks.VERSION else self._open_http(client, first))
        if server is not None:
            try:
                await asyncio.gather(_copy(client.reader, server.writer), _copy(server.reader, client.writer))
            finally:
                server.writer.close()

    async def _open_socks(self, client: Stream) -> Stream | None:
        reader, writer = client
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        if not socks.accepts_no_authentication(methods):
            writer.write(socks.NO_ACCEPTABLE_METHOD)
            return None
        writer.write(socks.NO_AUTHENTICATION)
        try:
            head = await reader.readexactly(5)
            request = socks.parse_request(head, await reader.readexactly(socks.address_length(head)))
            server = await self._connect(request.host, request.port)
        except socks.Unsupported as error:
            writer.write(socks.reply(error.reply))
            return None
        except Unresolved:
            writer.write(socks.reply(socks.HOST_UNREACHABLE))
            return None
        except _NotReached as error:
            writer.write(socks.reply(socks.REFUSED if error.is_refused else socks.HOST_UNREACHABLE))
            return None
        writer.write(socks.reply(socks.SUCCEEDED))
        return server

    async def _open_http(self, client: Stream, first: bytes) -> Stream | None:
        reader, writer = client
        head = first + await reader.readuntil(b"\r\n\r\n")
        try:
            request = http_requests.parse_request(head)
            server = await self._connect(request.host, request.port)
        except http_requests.BadRequest as error:
            writer.write(http_requests.refusal(400, "Bad Request", str(error)))
            return None
        except (Unresolved, _NotReached) as error:
            writer.write(http_requests.refusal(502, "Bad Gateway", str(error)))
            return None
        if request.forwarded:
            server.writer.write(request.forwarded)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        return server

    async def _connect(self, host: str, port: int) -> Stream:
        """Connect to the first address that answers. Raises Unresolved, _NotReached."""
        failure = _NotReached(f"{host}:{port}: no address")
        for address in await self._names.resolve(host):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return Stream(*await asyncio.open_connection(address, port, limit=_BUFFER_BYTES))
            except TimeoutError:
                failure = _NotReached(f"{host}:{port} does not answer ({address})")
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                failure = _NotReached(f"{host}:{port}: {reason} ({address})", isinstance(error, ConnectionRefusedError))
        raise failure


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end of the stream, and pass the end on. A failed end fails the other, too."""
    try:
        while data := await reader.read(_BUFFER_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()
        raise
