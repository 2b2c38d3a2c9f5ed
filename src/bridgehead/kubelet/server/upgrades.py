"""Connections that a request upgrades to WebSocket or SPDY and that the kubelet's server then serves as raw bytes.

The HTTP library's own WebSockets hold a whole message in memory, end a connection whose client does not answer pings
while it waits for a slow command, and drop what has arrived when the connection is lost. It does not know SPDY at all.
Source: RFC 6455, 4.2; Kubernetes `apimachinery/pkg/util/httpstream` (wsstream, spdy).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import http
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from bridgehead.kubelet.errors import NotServed
from bridgehead.streaming.byte_stream import ByteStream
from bridgehead.streaming.websocket import accept_key

_WEBSOCKET_VERSION = "13"
_KEY_BYTES = 16
_VERSION_HEADER = "X-Stream-Protocol-Version"
# Time for the peer to end its side, after the session has ended.
_LINGER_SECONDS = 10.0

Headers = list[tuple[str, str]]


class Upgrade:
    """An upgrade that a request asks for.

    `protocol` is one of those that are offered, "" if the client of a WebSocket names none. `version` is what a client
    of SPDY calls it. `headers` are those of the answer.
    """

    def __init__(self, *, is_spdy: bool, protocol: str, headers: Headers, version: str = "") -> None:
        self.is_spdy = is_spdy
        self.protocol = protocol
        self.version = version
        self.headers = headers


def negotiate(request: web.Request, websocket: Sequence[str], spdy: Mapping[str, str]) -> Upgrade:
    """Return the upgrade that a request asks for. Raises `NotServed` (400, 403).

    `websocket` are the subprotocols offered over WebSocket, `spdy` those over SPDY and what they are called here.
    """
    asked = {word.strip().lower() for word in request.headers.get("Connection", "").split(",")}
    kind = request.headers.get("Upgrade", "").lower() if "upgrade" in asked else ""
    if kind == "websocket":
        return _negotiate_websocket(request, websocket)
    if kind == "spdy/3.1":
        offered = _listed(request, _VERSION_HEADER)
        name = next((name for name in offered if name in spdy), None)
        if name is None:
            raise NotServed(
                403, f"unable to upgrade: unable to negotiate protocol: client supports {_quoted(offered)}, "
                f"server accepts {_quoted(spdy)}",
            )  # fmt: skip
        headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), (_VERSION_HEADER, name)]
        return Upgrade(is_spdy=True, protocol=spdy[name], version=name, headers=headers)
    raise NotServed(400, "Upgrade request required")


def _negotiate_websocket(request: web.Request, offered: Sequence[str]) -> Upgrade:
    key = request.headers.get("Sec-WebSocket-Key", "")
    try:
        is_key = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        is_key = False
    if request.method != "GET" or not is_key:
        raise NotServed(400, "unable to upgrade: not a handshake of a WebSocket")
    if request.headers.get("Sec-WebSocket-Version") != _WEBSOCKET_VERSION:
        raise NotServed(400, f"unable to upgrade: the WebSocket version offered here is {_WEBSOCKET_VERSION}")
    asked = _listed(request, "Sec-WebSocket-Protocol")
    protocol = next((name for name in asked if name in offered), "")
    if asked and not protocol:
        raise NotServed(400, f"unable to upgrade: the subprotocols offered here are {', '.join(offered)}")
    headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept_key(key))]
    if protocol:
        headers.append(("Sec-WebSocket-Protocol", protocol))
    return Upgrade(is_spdy=False, protocol=protocol, headers=headers)


def _listed(request: web.Request, name: str) -> list[str]:
    return [word.strip() for value in request.headers.getall(name, []) for word in value.split(",") if word.strip()]


def _quoted(names: Sequence[str] | Mapping[str, str]) -> str:
    return f"[{' '.join(names)}]"


class _Taken(web.StreamResponse):
    """The response of a request whose connection was taken over: nothing is left to send."""

    async def prepare(self, request: web.BaseRequest) -> Any:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        self.force_close()


async def take_over(
    request: web.Request,
    upgrade: Upgrade,
    serve: Callable[[ByteStream], Awaitable[None]],
    *,
    idle_seconds: float,
    keeps_input: bool = False,
) -> web.StreamResponse:
    """Answer a request with its upgrade and `serve` the connection; then close it.

    The connection is also closed when no byte has passed it for `idle_seconds`, in both directions (0: never). `serve`
    is cancelled then; with `keeps_input` it goes on until all input is taken.
    """
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError
    # The library gets the connection back at the end: it counts its connections, and closes this one.
    library = transport.get_protocol()
    stream = ByteStream(transport)
    try:
        with contextlib.suppress(ConnectionError):
            await stream.write(_head(upgrade.headers))
            async with _closed_when_idle(stream, idle_seconds, cancels=not keeps_input):
                await serve(stream)
            await stream.linger(_LINGER_SECONDS)
    finally:
        transport.set_protocol(library)
        if stream.is_lost:
            asyncio.get_running_loop().call_soon(library.connection_lost, None)
        else:
            transport.close()
    return _Taken()


def _head(headers: Headers) -> bytes:
    status = http.HTTPStatus.SWITCHING_PROTOCOLS
    lines = [f"HTTP/1.1 {status} {status.phrase}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join((*lines, "", "")).encode()


@contextlib.asynccontextmanager
async def _closed_when_idle(stream: ByteStream, seconds: float, *, cancels: bool) -> AsyncIterator[None]:
    """Close the connection when it has been idle for so long, which ends the block as when the client leaves.

    `cancels`: the block is cancelled, too. A block that waits for a pod that takes nothing does not notice that its
    client has left.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def check() -> None:
        nonlocal timer
        due = stream.last_active + seconds
        if due <= loop.time():
            stream.abort()
            if cancels:
                idle.reschedule(loop.time())
        else:
            timer = loop.call_at(due, check)

    try:
        async with asyncio.timeout(None) as idle:
            if seconds > 0:
                check()
            yield
    except TimeoutError:
        if not idle.expired():
            raise
    finally:
        if timer is not None:
            timer.cancel()
