"""One forwarded connection: bytes between a client's session and a port of a pod, with bounds on what waits.

Called by `port_forward` and `port_channels`. Source: containerd `internal/cri/server/sandbox_portforward_linux.go`,
which also leaves the second direction a second after the end of the first one; here, a direction ends only when nothing
has passed for that long and nothing waits, and the end of the client's bytes is passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket as sockets
from collections import deque
from collections.abc import Awaitable, Callable

_CHUNK = 32 * 1024
# Limit of the input that waits for one connection; the session's other connections wait while one has more.
_MAX_WAITING_BYTES = 256 * 1024
# Time for the rest of a connection after its client has left or the pod has ended its side, while no byte passes; more
# of it for a slow pod to read what has arrived.
_GRACE_SECONDS = 1.0
_DELIVERY_SECONDS = 30.0

Send = Callable[[bytes], Awaitable[None]]


class Input:
    """The bytes that a client sends to a port, in order. `put` waits while too much of it has not been taken."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._has_ended = False
        self._is_dropped = False
        self._is_awaited = False
        self._changed = asyncio.Event()

    def add(self, data: bytes) -> None:
        """Add bytes. Does nothing after the end."""
        if self._has_ended or self._is_dropped:
            return
        self._waiting.append(data)
        self._bytes += len(data)
        self._notify()

    async def put(self, data: bytes) -> None:
        """Add bytes, and wait until there is room for more."""
        self.add(data)
        while self.is_full:
            await self._wait()

    @property
    def is_full(self) -> bool:
        return self._bytes > _MAX_WAITING_BYTES

    def end(self) -> None:
        self._has_ended = True
        self._notify()

    def drop(self) -> None:
        """Forget what waits and take no more: the pod reads nothing."""
        self._is_dropped = True
        self._waiting.clear()
        self._bytes = 0
        self._notify()

    @property
    def is_delivered(self) -> bool:
        """Whether all that was added has been taken, and the taker waits for more."""
        return self._is_awaited

    async def get(self) -> bytes:
        """Return the next bytes, b"" after the last ones."""
        self._is_awaited = not self._waiting
        while not self._waiting:
            if self._has_ended or self._is_dropped:
                return b""
            await self._wait()
        self._is_awaited = False
        data = self._waiting.popleft()
        self._bytes -= len(data)
        self._notify()
        return data

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _wait(self) -> None:
        await self._changed.wait()


class PortCopy:
    """The copying of one connection. `has_left` is set by the owner when the client has left."""

    def __init__(self, port: sockets.socket, given: Input, send: Send, has_left: asyncio.Event) -> None:
        self._port = port
        self._given = given
        self._send = send
        self._has_left = has_left
        self._passed = 0  # pieces, in both directions

    async def run(self, on_pod_end: Callable[[], Awaitable[None]]) -> None:
        """Copy until both sides have ended. `on_pod_end` is called when the pod has ended its side."""
        upward = asyncio.create_task(self._to_pod())
        downward = asyncio.create_task(self._from_pod())
        leaving = asyncio.create_task(self._has_left.wait())
        try:
            await asyncio.wait((downward, leaving), return_when=asyncio.FIRST_COMPLETED)
            if downward.done():
                await on_pod_end()
            await self._wait_out({upward, downward})
        finally:
            for task in (upward, downward, leaving):
                task.cancel()
            await asyncio.gather(upward, downward, leaving, return_exceptions=True)
            self._given.drop()

    async def _wait_out(self, tasks: set[asyncio.Task[None]]) -> None:
        """Wait for the tasks as long as bytes pass."""
        pending, before = tasks, -1
        while pending and before != self._passed:
            before = self._passed
            seconds = _GRACE_SECONDS if self._given.is_delivered else _DELIVERY_SECONDS
            _, pending = await asyncio.wait(pending, timeout=seconds)

    async def _to_pod(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await self._given.get():
                for start in range(0, len(data), _CHUNK):
                    await loop.sock_sendall(self._port, data[start : start + _CHUNK])
                    self._passed += 1
            self._port.shutdown(sockets.SHUT_WR)
        except OSError:
            self._given.drop()

    async def _from_pod(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(self._port, _CHUNK):
                self._passed += 1
                await self._send(data)
