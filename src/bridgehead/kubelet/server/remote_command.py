"""An exec or attach session: Kubernetes' remote command protocol, all versions.

Called by the kubelet's server. The channels (`channels`) are 0 stdin, 1 stdout, 2 stderr, 3 the `Status` at the end,
4 the terminal's size; a message of 255 closes the channel that its data names. Source: Kubernetes
`apimachinery/pkg/util/remotecommand` and KEP-4006; containerd `internal/cri/io` for what a command gets.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from bridgehead.kubelet.runtimes.runtime import ExecSession

from .channels import CLOSE, RESIZE, STDERR, STDIN, STDOUT, Channels

_CHUNK = 32 * 1024
_MAX_SIZE_BYTES = 1024  # of a message with a terminal's size
_END_OF_INPUT = b"\x04"  # ^D


Characters = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]


class TerminalSize(msgspec.Struct, frozen=True):
    """A message of channel 4."""

    width: Characters = msgspec.field(name="Width", default=0)
    height: Characters = msgspec.field(name="Height", default=0)


def exit_status(exit_code: int) -> dict[str, Any]:
    """Return the `Status` that ends an exec session."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def detached_status(_: int) -> dict[str, Any]:
    """Return the `Status` that ends an attach session. The pod's status has the container's exit code."""
    return exit_status(0)


def failure_status(message: str) -> dict[str, Any]:
    """Return the `Status` for a command that could not be started."""
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}


async def run_session(
    channels: Channels,
    session: ExecSession,
    *,
    status: Callable[[int], dict[str, Any]] = exit_status,
    ends_with_input: bool = False,
) -> None:
    """Copy bytes in both directions until the command has ended or the client has left; then close the session.

    A client that leaves has what it sent delivered first, and a command that ends has its output sent first, however
    slow the other side is. `status` renders the last message from the exit code. With `ends_with_input`, the end of the
    client's input ends the session instead of being passed on.
    """
    outputs = ((session.stdout_fd, STDOUT), (session.stderr_fd, STDERR))
    readers = [asyncio.create_task(_send_output(channels, fd, number)) for fd, number in outputs if fd is not None]
    feeder = asyncio.create_task(_receive_input(channels, session, stops_at_end=ends_with_input))
    ended = asyncio.create_task(_wait_drained(session, readers))
    try:
        await asyncio.wait((feeder, ended), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await channels.send_status(status(ended.result()))
        elif feeder.result():
            await channels.send_status(status(0))
        await channels.finish()
    finally:
        tasks = (*readers, feeder, ended)
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:  # also if the server cancels this handler now
            await session.close()


async def _wait_drained(session: ExecSession, readers: list[asyncio.Task[None]]) -> int:
    """Wait for the command and for the end of its output, which processes that it has started may still hold open."""
    code = await session.wait()
    if readers:
        await asyncio.wait(readers)
    return code


async def _send_output(channels: Channels, fd: int, number: int) -> None:
    """Send output until its end; drop it when the client has left, so that the command can still take its input."""
    while data := await _read(fd):
        await channels.send(number, data)


async def _receive_input(channels: Channels, session: ExecSession, *, stops_at_end: bool) -> bool:
    """Process messages until the client leaves or, with `stops_at_end`, ends its input. Returns whether it stays."""
    stdin = session.stdin_fd
    size = b""
    async for channel, data in channels.messages():
        if channel == STDIN and stdin is not None and data:
            try:
                await _write(stdin, data)
            except OSError:
                stdin = None  # the command has closed its stdin
        elif channel == RESIZE:
            size = _resize(session, size + data)
        elif channel == CLOSE and data == bytes((STDIN,)) and stdin is not None:
            if stops_at_end:
                return True
            await _end_input(session)
            stdin = None
    return False


def _resize(session: ExecSession, data: bytes) -> bytes:
    """Set the terminal's size from each object in the data; return what follows them, the beginning of another one."""
    while b"}" in data:
        text, _, data = data.partition(b"}")
        with contextlib.suppress(msgspec.MsgspecError):
            size = msgspec.json.decode(text + b"}", type=TerminalSize)
            session.resize(size.width, size.height)
    return data[:_MAX_SIZE_BYTES]


async def _end_input(session: ExecSession) -> None:
    """Signal the end of input: to a terminal with ^D, since its descriptor is also that of the output; to a pipe
    by closing it."""
    fd = session.stdin_fd
    if fd is None:
        return
    if os.isatty(fd):
        with contextlib.suppress(OSError):
            await _write(fd, _END_OF_INPUT)
        return
    session.stdin_fd = None
    os.close(fd)


async def _read(fd: int) -> bytes:
    """Read the available bytes, waiting for the first one; b"" at the end.

    Yields to the event loop each time: a command whose output never runs out would keep it from all others.
    """
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while True:
        try:
            return os.read(fd, _CHUNK)
        except BlockingIOError:
            pass
        except OSError:
            return b""  # EIO: the last process on a terminal is gone
        ready = loop.create_future()
        loop.add_reader(fd, _resolve, ready)
        try:
            await ready
        finally:
            loop.remove_reader(fd)


async def _write(fd: int, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
            continue
        except BlockingIOError:
            pass
        ready = loop.create_future()
        loop.add_writer(fd, _resolve, ready)
        try:
            await ready
        finally:
            loop.remove_writer(fd)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
