"""The transport of one response: its headers leave with the first piece of its body.

uvicorn writes them apart. With TLS, each write is a record of its own, which costs as much as routing a request.
"""

from __future__ import annotations

import asyncio

_CONTINUE = b"HTTP/1.1 100"


class JoinedWrites:
    """Keeps the headers until the body's first write, which may be empty, or until the connection is closed."""

    __slots__ = ("_headers", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._headers: bytes | None = None

    def write(self, data: bytes) -> None:
        headers = self._headers
        if headers is None and not data.startswith(_CONTINUE):
            self._headers = data
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
