"""The bound on bytes that wait for slow clients, over all connections of the server.

The application waits here before it writes to a connection whose send buffer is full. A waiting stream holds only the
bytes in its transport. When all waiting streams together hold too much, the connection that has waited longest is
closed. Clients of watches and lists start again, as after any lost connection. `server` puts a `Connection` into the
scope.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from .turns import Turns

log = logging.getLogger(__name__)

MAX_UNSENT_BYTES = 64 * 1024 * 1024
# A client that reads nothing for so long counts as gone.
WRITE_SECONDS = 30.0

# A second transport under TLS has a buffer of its own (the default of asyncio and uvloop), which is not visible here.
# TLS passes everything on until that buffer is full, so bytes that TLS itself holds come on top of a full buffer.
_BELOW_TLS_BYTES = 64 * 1024


class Flow(Protocol):
    """uvicorn's flow control of a transport."""

    write_paused: bool

    async def drain(self) -> None: ...


class Connection:
    """The sending side of one client's connection."""

    def __init__(self, transport: asyncio.Transport, flow: Flow, *, is_tls: bool) -> None:
        self._transport = transport
        self._flow = flow
        self._below = _BELOW_TLS_BYTES if is_tls else 0

    @property
    def is_full(self) -> bool:
        """Whether the send buffer is full."""
        return self._flow.write_paused

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() + self._below

    def limit_buffer(self) -> None:
        """Make the buffer count as full as soon as it holds any byte. (A limit of 0 is always full under TLS.)"""
        self._transport.set_write_buffer_limits(high=1, low=0)

    async def drain(self) -> None:
        """Wait until the buffer has room or the connection is lost."""
        await self._flow.drain()

    def abort(self) -> None:
        """Close the connection and drop unsent bytes."""
        self._transport.abort()


class ClientTooSlow(Exception):
    """The connection was closed: its client read nothing for too long, or too many bytes waited for all clients."""


class UnsentBudget:
    """Bytes that wait for clients. Calls `on_freed` with the number of bytes that a closed connection held.

    `turns` are those of the streams of these clients.
    """

    def __init__(
        self,
        max_bytes: int = MAX_UNSENT_BYTES,
        seconds: float = WRITE_SECONDS,
        on_freed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.turns = Turns()
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._on_freed = on_freed
        self._held = 0
        # Connections in the order in which they began to wait. A client that reads begins anew with each piece.
        self._waiting: dict[Connection, tuple[int, str]] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes that wait for clients at the moment."""
        return self._held

    async def wait(self, connection: Connection, held_bytes: int, path: str) -> None:
        """Wait until a full connection has room or is lost. Raises `ClientTooSlow` when the connection has been closed.

        `held_bytes` are those that the stream keeps for this client alone; `path` is the request's, for the log.
        """
        size = connection.unsent_bytes + held_bytes
        self._waiting[connection] = (size, path)
        self._held += size
        while self._held > self._max_bytes:
            self._close(next(iter(self._waiting)), "too many bytes wait for clients that do not read")
        try:
            async with asyncio.timeout(self._seconds):
                await connection.drain()
        except TimeoutError:
            await self.turns.take()  # many connections can be over their time at once
            if connection in self._waiting:
                self._close(connection, "the client reads nothing")
        finally:
            was_closed = connection not in self._waiting
            self._forget(connection)
        if was_closed:
            raise ClientTooSlow

    def _close(self, connection: Connection, why: str) -> None:
        size, path = self._forget(connection)
        log.warning("%s: %s; connection closed", path, why)
        connection.abort()
        self._on_freed(size)

    def _forget(self, connection: Connection) -> tuple[int, str]:
        size, path = self._waiting.pop(connection, (0, ""))
        self._held -= size
        return size, path
