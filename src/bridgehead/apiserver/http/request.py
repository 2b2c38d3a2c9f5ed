"""One HTTP request and its response, as handlers use them, independent of ASGI."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

import msgspec

from bridgehead.apiserver.errors import timed_out, too_large

from .request_info import Query, RequestInfo
from .user import User

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY = 3 * 1024 * 1024
# Default of kube-apiserver's --request-timeout.
_BODY_SECONDS = 60.0
# Key in the scope's state: the server has received the whole body.
WHOLE_BODY = "whole_body"

# Key in the scope's state of a connection that has no client certificate: its `accepting.Newcomer`.
NEWCOMER = "newcomer"
# Key in the scope's state of a connection with the certificate of a front proxy: the common name in it.
FRONT_PROXY = "front_proxy"
# Key in the scope's state: the end of the validity of a user's certificate (seconds since the epoch).
PEER_UNTIL = "peer_until"

_encode = msgspec.json.Encoder().encode
_NO_SNIFF = (b"x-content-type-options", b"nosniff")


class Request(msgspec.Struct):
    """A request. Names in `headers` are in lower case; the last of several headers with one name wins."""

    info: RequestInfo
    method: str
    query: Query
    headers: Mapping[bytes, bytes]
    user: User
    scope: Scope
    receive: Receive
    warnings: list[str] = []
    annotations: dict[str, str] = {}  # of the request's audit event
    body_size: int = 0  # 0 until `body` has been called
    audit_id: bytes = b""

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    async def body(self) -> bytes:
        """Read the whole body. Raises a 413 as soon as it is known to be too large, a 504 if it takes too long."""
        length = self.headers.get(b"content-length")
        if length is not None and int(length) > MAX_BODY:
            raise too_large(MAX_BODY)
        if WHOLE_BODY in self.scope.get("state", ()):
            body = await self._read_body()  # without the cost of a timer
        else:
            try:
                async with asyncio.timeout(_BODY_SECONDS):
                    body = await self._read_body()
            except TimeoutError:
                raise timed_out() from None
        self.body_size = len(body)
        return body

    async def _read_body(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        if not message.get("more_body"):
            whole: bytes = message.get("body", b"")
            if len(whole) > MAX_BODY:
                raise too_large(MAX_BODY)
            return whole
        pieces = bytearray(message.get("body", b""))
        while message.get("more_body"):
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            pieces += message.get("body", b"")
            if len(pieces) > MAX_BODY:
                raise too_large(MAX_BODY)
        return bytes(pieces)


class Disconnected(Exception):
    """The client closed the connection while its request was being read."""


class StreamBroken(Exception):
    """A stream that ended too early. The connection is closed, so that the client notices."""


class Stream(Protocol):
    """A body that comes in pieces. `aclose` is called in any case, also when nothing has been read.

    An empty piece means that the next one will be rendered: whoever reads it takes a turn first (`turns`).

    `held_bytes`: bytes that the stream keeps in memory for its reader alone.
    """

    @property
    def held_bytes(self) -> int: ...

    def __aiter__(self) -> AsyncGenerator[bytes, None]: ...

    async def aclose(self) -> None: ...


class Response(msgspec.Struct):
    """A response: `body`, or the pieces of `stream`, each written at once.

    `drops_slow`: close the connection when the client reads nothing for long. True for watches, which clients restart;
    False for logs, which a person may read in a pager.
    `is_large`: the stream is as long as a body that is worth compressing.
    `is_long_running`: the stream ends only with the client, so it has a metric of its own while it is open.
    `content_type` "": the response has no such header.
    `receive`: reports the client's disconnect while the stream is sent, for a response that is sent while the request's
    body is still being read; None: the request's own.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: Stream | None = None
    drops_slow: bool = False
    is_large: bool = False
    is_long_running: bool = False
    receive: Receive | None = None


def text_response(status: int, text: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """Return a plain text, as Go's HTTP library sends errors."""
    return Response(status, text.encode(), "text/plain; charset=utf-8", (_NO_SNIFF, *headers))


def respond(value: Any, status: int = 200) -> Response:
    return Response(status, _encode(value))


def date_header() -> tuple[bytes, bytes]:
    """Return the Date header of an answer that uvicorn does not send."""
    return b"date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()).encode()
