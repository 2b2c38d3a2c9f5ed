"""The transport of one response: its head is written as Go's servers write it, and leaves with the body's first piece.

uvicorn writes head and body apart. With TLS, each write is a record of its own, which costs as much as routing a
request.
"""

from __future__ import annotations

import asyncio

from bridgehead.go_http import rewrite_head

_CONTINUE = b"HTTP/1.1 100"


class JoinedWrites:
    """Keeps the head until the body's first write, which may be empty, or until the connection is closed.

    `has_body`: False for the answer to a HEAD, whose head leaves at once.
    """

    __slots__ = ("_has_body", "_headers", "_transport")

    def __init__(self, transport: asyncio.Transport, *, has_body: bool = True) -> None:
        self._transport = transport
        self._has_body = has_body
        self._headers: bytes | None = None

    def write(self, data: bytes) -> None:
        headers = self._headers
        if headers is None and not data.startswith(_CONTINUE):
            self._headers = rewrite_head(data)
            if not self._has_body:
                self._transport.write(self._headers)
                self._headers = b""
        elif headers:
            self._headers = b""
            self._transport.write(headers + data)
        else:
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        if self._headers:
            self._transport.write(self._headers)
        self._transport.close()
