"""Connections that a request upgrades and the application takes over as raw bytes.

`server` hands a connection over when its request asks for an upgrade and the application wants it (`takes_upgrade`).
The application gets an ordinary HTTP request. It answers it as usual, or it takes the connection: `tunnel_of`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

from bridgehead.go_http import render_head
from bridgehead.streaming.byte_stream import ByteStream

from .request import Scope, date_header

log = logging.getLogger(__name__)

_EXTENSION = "bridgehead.tunnel"


class Tunnel(Protocol):
    """The client's side of an upgraded connection. `on_start` is called when the connection is taken."""

    on_start: Callable[[], None]

    async def start(self, head: bytes) -> None:
        """Take the connection and send `head`, the response 101 with its empty line."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes of the client, b"" after its last one."""
        ...

    async def write(self, data: bytes) -> None:
        """Write, and wait while the client does not keep up. Raises ConnectionResetError when it has left."""
        ...

    def end(self) -> None:
        """End the bytes to the client."""
        ...

    async def wait_lost(self) -> None:
        """Wait until the connection is closed."""
        ...


def tunnel_of(scope: Scope) -> Tunnel | None:
    """Return the tunnel of a request that asks for an upgrade, None for any other request."""
    tunnel: Tunnel | None = (scope.get("extensions") or {}).get(_EXTENSION)
    return tunnel


def asks_for_upgrade(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request asks for another protocol. h2c does not count: a server may ignore it, and this one does."""
    asks, protocol = False, b""
    for name, value in headers:
        if name == b"connection":
            asks = asks or b"upgrade" in (word.strip().lower() for word in value.split(b","))
        elif name == b"upgrade":
            protocol = value.strip().lower()
    return asks and protocol not in (b"", b"h2c")


Application = Callable[[Scope, Any, Any], Coroutine[Any, Any, None]]


class TunnelProtocol(ByteStream):
    """One connection that was handed over. `body` is the request's; `tasks` keeps the application's run alive."""

    def __init__(
        self,
        application: Application,
        scope: Scope,
        body: bytes,
        transport: asyncio.Transport,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        super().__init__(transport)
        self._application = application
        self._body: bytes | None = body
        self._is_taken = False
        self.on_start: Callable[[], None] = lambda: None
        self._scope: Scope = {**scope, "extensions": {_EXTENSION: self}}
        task = asyncio.get_running_loop().create_task(self._run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._receive, self._send)
        except Exception:
            log.exception("%s over a tunnel failed", self._scope.get("path"))
        finally:
            self.close()

    async def start(self, head: bytes) -> None:
        self._is_taken = True
        self.on_start()
        await self.write(head)

    # --- The request, for an application that answers it ----------------------------------------------------------

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.wait_lost()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if self._is_taken:
            return  # the answer was the upgrade
        if message["type"] == "http.response.start":
            headers = [(name, value) for name, value in message["headers"] if name != b"connection"]
            data = render_head(message["status"], [*headers, date_header(), (b"connection", b"close")])
        else:
            data = message.get("body", b"")
        with contextlib.suppress(ConnectionError):
            await self.write(data)
