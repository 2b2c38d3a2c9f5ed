"""What is left of an exec session when its client leaves at any moment: nothing."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest
from aiohttp import web

from bridgehead.kubelet import server, streams
from bridgehead.kubelet.runtimes import client, messages


class Session:
    """A command that runs until it is closed."""

    def __init__(self) -> None:
        self.stdin_fd = self.stderr_fd = None
        self.stdout_fd, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.closed = False

    async def wait(self) -> int:
        await asyncio.Event().wait()
        return 0

    async def close(self) -> None:
        self.closed = True
        for fd in (self.stdout_fd, self._writer):
            os.close(fd)


class Socket:
    """A client that leaves at once."""

    closed = True

    def __init__(self, **_: Any) -> None:
        pass

    async def prepare(self, request: Any) -> None:
        await asyncio.sleep(0)

    async def close(self) -> None:
        await asyncio.sleep(0)

    async def __aiter__(self) -> Any:
        await asyncio.sleep(0)
        for nothing in ():
            yield nothing


async def cancelled_after(steps: int, task: asyncio.Task[Any]) -> None:
    """As aiohttp does it when the connection is lost, so many steps of the loop after the beginning."""
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("steps", range(12))
async def test_a_session_is_closed_whenever_its_server_is_cancelled(steps: int, monkeypatch: pytest.MonkeyPatch):
    opened: list[Session] = []

    async def open_session() -> Session:
        await asyncio.sleep(0)
        opened.append(Session())
        await asyncio.sleep(0)
        return opened[-1]

    monkeypatch.setattr(web, "WebSocketResponse", Socket)
    serving = server._serve_session(None, open_session, streams.run_session)  # type: ignore[arg-type]
    await cancelled_after(steps, asyncio.create_task(serving))
    assert all(session.closed for session in opened)
    assert opened or steps < 4


async def test_an_answer_is_not_lost_with_the_one_who_waited_for_it():
    """Cancelled at the moment at which the runtime's answer is here: whose are its descriptors?"""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link = client._Link(ours, lambda _: None)
    asking = asyncio.create_task(link.ask(messages.ListSandboxes()))
    await asyncio.sleep(0)
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    socket.send_fds(theirs, [messages.encode_frame(messages.Reply(1, descriptors=1))], [writer])
    os.close(writer)
    link._read()
    asking.cancel()
    await asyncio.wait([asking])
    assert os.read(reader, 1) == b"", "nobody has the other end"
    os.close(reader)
    link.break_off("the end")
    theirs.close()
