"""An exec session leaves nothing behind, whenever its client disconnects."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.kubelet.runtimes.wire import client, messages
from bridgehead.kubelet.server import channels, kubelet_server, remote_command


class Session:
    """A command that runs until it is closed."""

    def __init__(self) -> None:
        self.stdin_fd: int | None = None
        self.stderr_fd: int | None = None
        self.stdout_fd: int | None
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stdout_fd = self._reader
        self.closed = False

    async def wait(self) -> int:
        await asyncio.Event().wait()
        return 0

    def resize(self, columns: int, rows: int) -> None:
        raise AssertionError("there is no terminal")

    async def close(self) -> None:
        self.closed = True
        for fd in (self._reader, self._writer):
            os.close(fd)


class Leaving:
    """The channels of a client that leaves at once."""

    async def begin(self) -> bool:
        await asyncio.sleep(0)
        return True

    async def send(self, channel: int, data: bytes) -> None:
        await asyncio.sleep(0)

    async def send_status(self, status: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    async def finish(self) -> None:
        await asyncio.sleep(0)

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        await asyncio.sleep(0)
        for nothing in ():
            yield nothing


async def cancelled_after(steps: int, task: asyncio.Task[Any]) -> None:
    """Cancel the session as a server that stops does, so many steps of the loop after the beginning."""
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("steps", range(12))
async def test_a_session_is_closed_when_its_server_is_cancelled(steps: int):
    opened: list[Session] = []

    async def open_session() -> Session:
        await asyncio.sleep(0)
        opened.append(Session())
        await asyncio.sleep(0)
        return opened[-1]

    serving = kubelet_server.serve_channels(Leaving(), open_session, remote_command.run_session)
    await cancelled_after(steps, asyncio.create_task(serving))
    assert all(session.closed for session in opened)
    assert opened or steps < 4


async def test_descriptors_of_a_cancelled_request_are_closed():
    """The request is cancelled when the runtime's reply with descriptors has arrived."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = client._Connection(ours, lambda _: None)
    asking = asyncio.create_task(connection.call(messages.ListSandboxes()))
    await asyncio.sleep(0)
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    socket.send_fds(theirs, [messages.encode_frame(messages.Reply(1, descriptors=1))], [writer])
    os.close(writer)
    connection._read()
    asking.cancel()
    await asyncio.wait([asking])
    assert os.read(reader, 1) == b"", "nobody has the other end"
    os.close(reader)
    connection.abort("the end")
    theirs.close()


class Terminal(Session):
    """A command with a terminal, whose output never runs out."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[int, int]] = []
        os.write(self._writer, b"x" * 60_000)

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))


async def test_sizes_that_no_terminal_can_have_are_ignored():
    class Resizing(Leaving):
        async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
            for size in (b'{"Width":-1}', b'{"Width":65536}', b'{"Width":80,"Height":24}'):
                yield channels.RESIZE, size

    session = Terminal()
    await remote_command.run_session(Resizing(), session)
    assert session.sizes == [(80, 24)]


async def test_output_that_never_runs_out_lets_others_work():
    session, turns, sent = Terminal(), 0, asyncio.Semaphore(0)

    class Reading(Leaving):
        """The channels of a client that takes all output at once."""

        async def send(self, channel: int, data: bytes) -> None:
            os.write(session._writer, data)
            sent.release()

        async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
            nonlocal turns
            while turns < 99:
                await asyncio.sleep(0)
                turns += 1
            for nothing in ():
                yield nothing

    async with asyncio.timeout(10):
        await remote_command.run_session(Reading(), session)
    assert turns == 99
    assert not sent.locked()
