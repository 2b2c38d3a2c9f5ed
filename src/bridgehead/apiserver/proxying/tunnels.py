"""A request that upgrades its connection: WebSocket, SPDY or any other protocol, passed on as raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import httptools

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.request import Disconnected, Request, Response
from bridgehead.apiserver.http.tunnel import Tunnel, tunnel_of

from .connections import CONNECT_SECONDS, describe
from .headers import is_valid, response_headers, upgrade_headers
from .routes import Route, client_address

_CHUNK_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_MAX_REFUSAL_BYTES = 1024 * 1024
_REFUSAL_SECONDS = 10.0


async def connect(request: Request, route: Route) -> Response:
    """Pass an upgrade on; return when the upgraded connection has ended, or the target's refusal.

    Raises a 500 if the target cannot be reached or answers neither with an upgrade nor with an error, `Disconnected`
    if the client leaves before the target answers.
    """
    client = tunnel_of(request.scope)
    if client is None:
        raise _failed("request connection cannot be hijacked")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                route.target.host,
                route.target.port,
                ssl=route.tls if route.target.scheme == "https" else None,
                server_hostname=(route.server_name or route.target.host) if route.target.scheme == "https" else None,
                limit=_CHUNK_BYTES,
            )
    except (OSError, TimeoutError, ssl.SSLError) as error:
        raise _failed(f"error dialing backend: {describe(error, route.target)}") from error
    try:
        writer.write(_head(request, route))
        head = await _await_head(request, reader)
        status = _status(head)
        if status == 101:
            await client.start(head)
            await _copy_in_both_directions(client, reader, writer)
            return Response(101, is_long_running=True)
        if status < 400:
            raise _failed(f"invalid upgrade response: status code {status}")
        return await _refusal(head, reader)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise _failed(describe(error, route.target) if isinstance(error, OSError) else "unexpected EOF") from error
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


def _failed(message: str) -> ApiStatus:
    return ApiStatus(500, "", message)


def _head(request: Request, route: Route) -> bytes:
    headers = route.headers(upgrade_headers(request.scope["headers"], client_address(request)))
    if not is_valid(headers):
        raise _failed("error sending request: net/http: invalid header field value")
    lines = [f"{request.method} {route.path} HTTP/1.1".encode()]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def _await_head(request: Request, reader: asyncio.StreamReader) -> bytes:
    """Return the head of the target's response. Raises `Disconnected` if the client leaves first."""
    reading = asyncio.ensure_future(_read_head(reader))
    leaving = asyncio.ensure_future(_leave(request))
    try:
        await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise Disconnected
        return reading.result()
    finally:
        leaving.cancel()
        reading.cancel()
        await asyncio.gather(reading, leaving, return_exceptions=True)


async def _leave(request: Request) -> None:
    """Wait until the client has left. An upgrade has no body (see `http.peer_protocol`)."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Return the status line and the headers of a response with the empty line at their end."""
    head = await reader.readuntil(b"\r\n\r\n")
    while head.startswith((b"HTTP/1.1 100", b"HTTP/1.1 102", b"HTTP/1.1 103")):
        head = await reader.readuntil(b"\r\n\r\n")
    return head


def _status(head: bytes) -> int:
    parts = head.split(b"\r\n", 1)[0].split(b" ")
    if not parts[0].startswith(b"HTTP/1.") or len(parts) < 2 or not parts[1].isdigit():
        raise _failed("malformed HTTP response")
    return int(parts[1])


class _Answer:
    """The callbacks of a parser of one response."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


async def _refusal(head: bytes, reader: asyncio.StreamReader) -> Response:
    """Return the target's response that refuses the upgrade."""
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    with contextlib.suppress(TimeoutError, httptools.HttpParserError):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            parser.feed_data(head)
            while not answer.is_complete and len(answer.body) < _MAX_REFUSAL_BYTES:
                if not (data := await reader.read(_CHUNK_BYTES)):
                    break
                parser.feed_data(data)
    content_type = next((value for name, value in answer.headers if name == b"content-type"), b"").decode("latin-1")
    headers = response_headers(answer.headers, keeps_length=False)
    return Response(_status(head), answer.body, content_type, tuple(headers), is_long_running=True)


async def _copy_in_both_directions(client: Tunnel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side ends its connection."""

    async def to_target() -> None:
        while data := await client.read():
            writer.write(data)
            await writer.drain()

    async def to_client() -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await client.write(data)

    copying = (asyncio.ensure_future(to_target()), asyncio.ensure_future(to_client()))
    try:
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)
