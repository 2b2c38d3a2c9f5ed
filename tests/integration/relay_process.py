"""A relay of TCP connections as a process of its own: one of several servers that can be killed or stopped.

All relays lead to one API server, so that they have the same objects and resourceVersions, as servers of one etcd have.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests import forks
from tests.forks import Forked

from .api_world import DEADLINE, hold_port

_LISTENER = 3  # the relay's descriptor


@dataclass
class RelayProcess:
    """A relay to the port `target` of 127.0.0.1. Owners call `close`."""

    target: int
    _held: socket.socket = field(default_factory=hold_port)  # keeps the port between two starts
    _process: Forked | None = None

    @property
    def port(self) -> int:
        port: int = self._held.getsockname()[1]
        return port

    def start(self) -> None:
        with (
            socket.create_server(("127.0.0.1", self.port), backlog=256) as listener,
            open(os.devnull, "r+b") as nothing,
        ):
            streams = (nothing.fileno(), nothing.fileno(), 2, listener.fileno())
            self._process = forks.fork(f"{__name__}:relay", self.target, streams=streams)

    def send_signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the relay: connections to it are reset, and new ones refused."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(DEADLINE)
            self._process = None

    def close(self) -> None:
        self.kill()
        self._held.close()


@contextlib.contextmanager
def relays(target: int, count: int) -> Iterator[list[RelayProcess]]:
    """Relays that run during the block."""
    found = [RelayProcess(target) for _ in range(count)]
    try:
        for one in found:
            one.start()
        yield found
    finally:
        for one in found:
            one.close()


def relay(target: int) -> None:
    """Relay the connections of the listening socket that the process has."""
    asyncio.run(_relay(target))


async def _relay(target: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    server = await asyncio.start_server(serve, sock=socket.socket(fileno=_LISTENER))
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
