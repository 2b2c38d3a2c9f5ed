"""The bound on bytes that wait for clients which do not read, over all connections of the server.

The application waits here before it writes to a connection that takes nothing at the moment. A stream that waits holds
only what its transport holds; when all of them together hold too much, whoever has taken nothing for longest is cut
off. Clients of watches and lists begin again, as after any lost connection. `server` puts a `Connection` into the
scope.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

MAX_UNSENT_BYTES = 64 * 1024 * 1024
# A client that takes nothing for so long is gone, or as good as.
WRITE_SECONDS = 30.0

# Below TLS a second transport has a buffer of its own (asyncio's and uvloop's default), which its owner does not show.
# TLS passes on everything until that one is full, so what TLS holds back itself lies above a full one.
_BELOW_TLS_BYTES = 64 * 1024


class Flow(Protocol):
    """What uvicorn knows of a transport's flow control."""

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
        """Whether the transport takes no more for now."""
        return self._flow.write_paused

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() + self._below

    def keep_short(self) -> None:
        """Be full as soon as bytes wait: a stream goes on when they are gone. (0 would always be full, under TLS.)"""
        self._transport.set_write_buffer_limits(high=1, low=0)

    async def drain(self) -> None:
        """Until it takes more, or is lost."""
        await self._flow.drain()

    def abort(self) -> None:
        """Close it and drop what it has not sent."""
        self._transport.abort()


class NotRead(Exception):
    """The client has taken nothing for too long, or too much waits for others too; its connection is closed."""


class UnsentBudget:
    """`on_freed` is told how many bytes a closed connection had held."""

    def __init__(
        self,
        max_bytes: int = MAX_UNSENT_BYTES,
        seconds: float = WRITE_SECONDS,
        on_freed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._on_freed = on_freed
        self._held = 0
        # In the order in which their waiting began. A client that reads at all begins anew with each piece.
        self._waiting: dict[Connection, tuple[int, str]] = {}

    @property
    def held_bytes(self) -> int:
        """What waits for clients at the moment."""
        return self._held

    async def wait(self, connection: Connection, held_bytes: int, path: str) -> None:
        """Until a full connection takes more or is lost. Raises `NotRead`, when the connection has been closed.

        `held_bytes` is what its stream keeps for it alone; `path` is what is being read, for the log.
        """
        size = connection.unsent_bytes + held_bytes
        self._waiting[connection] = (size, path)
        self._held += size
        while self._held > self._max_bytes:
            self._close(next(iter(self._waiting)), "too much waits for clients that do not read")
        try:
            async with asyncio.timeout(self._seconds):
                await connection.drain()
        except TimeoutError:
            if connection in self._waiting:
                self._close(connection, "the client reads nothing")
        finally:
            was_closed = connection not in self._waiting
            self._forget(connection)
        if was_closed:
            raise NotRead

    def _close(self, connection: Connection, why: str) -> None:
        size, path = self._forget(connection)
        log.warning("%s: %s; connection closed", path, why)
        connection.abort()
        self._on_freed(size)

    def _forget(self, connection: Connection) -> tuple[int, str]:
        size, path = self._waiting.pop(connection, (0, ""))
        self._held -= size
        return size, path
