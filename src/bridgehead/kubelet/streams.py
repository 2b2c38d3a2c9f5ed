"""One exec or attach session over a WebSocket: Kubernetes' remote command protocol, version 4 and 5.

Called by the kubelet's server. The first byte of a message is its channel: 0 stdin, 1 stdout, 2 stderr, 3 the `Status`
at the end, 4 the terminal's size, 255 (version 5 only) closes the channel that the second byte names. Source:
Kubernetes `apimachinery/pkg/util/remotecommand` and KEP-4006.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

import msgspec
from aiohttp import WSMsgType, web

from .runtimes.runtime import ExecSession

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

STATUS_CHANNEL = b"\x03"

_STDOUT, _STDERR = b"\x01", b"\x02"
_CHUNK = 32 * 1024
# What is still in the pipes when the command has ended; a child it left behind may hold them open for ever.
_DRAIN_SECONDS = 1.0


class TerminalSize(msgspec.Struct, frozen=True):
    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


def exit_status(exit_code: int) -> bytes:
    """The `Status` that ends a session."""
    if exit_code == 0:
        return msgspec.json.encode({"metadata": {}, "status": "Success"})
    return msgspec.json.encode(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    )


def detached_status(_: int) -> bytes:
    """The `Status` that ends an attach session: how the container ended is told by the pod's own status."""
    return exit_status(0)


def failure_status(message: str) -> bytes:
    """The `Status` for a command that could not be run at all."""
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
    return msgspec.json.encode(status)


async def run_session(
    socket: web.WebSocketResponse,
    session: ExecSession,
    *,
    status: Callable[[int], bytes] = exit_status,
    ends_with_input: bool = False,
) -> None:
    """Carry bytes both ways until the command has ended or the client has left; the session is closed then.

    `status` makes the last message from the exit code. With `ends_with_input` the end of the client's input is not
    passed on: it ends the session.
    """
    outputs = ((session.stdout_fd, _STDOUT), (session.stderr_fd, _STDERR))
    readers = [asyncio.create_task(_send_output(socket, fd, channel)) for fd, channel in outputs if fd is not None]
    feeder = asyncio.create_task(_receive_input(socket, session, stops_at_end=ends_with_input))
    ended = asyncio.create_task(session.wait())
    try:
        await asyncio.wait((feeder, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and socket.closed:
            return  # the client has left
        if ended.done() and readers:
            await asyncio.wait(readers, timeout=_DRAIN_SECONDS)
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(STATUS_CHANNEL + status(ended.result() if ended.done() else 0))
    finally:
        tasks = (*readers, feeder, ended)
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:  # the server cancels whom it serves when the client leaves, which we may just have noticed ourselves
            await session.close()


async def _send_output(socket: web.WebSocketResponse, fd: int, channel: bytes) -> None:
    while data := await _read(fd):
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(channel + data)


async def _receive_input(socket: web.WebSocketResponse, session: ExecSession, *, stops_at_end: bool) -> None:
    """Until the client leaves or, if so wanted, ends its input."""
    stdin = session.stdin_fd
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            data = message.data.encode()
        elif message.type is WSMsgType.BINARY:
            data = message.data
        else:
            continue
        if not data:
            continue
        match data[0]:
            case 0 if stdin is not None and len(data) > 1:
                try:
                    await _write(stdin, data[1:])
                except OSError:
                    stdin = None  # the command reads no more
            case 4:
                with contextlib.suppress(msgspec.MsgspecError):
                    size = msgspec.json.decode(data[1:], type=TerminalSize)
                    session.resize(size.width, size.height)
            case 255 if data[1:] == b"\x00" and stdin is not None:
                if stops_at_end:
                    return
                _end_input(session)
                stdin = None


def _end_input(session: ExecSession) -> None:
    """End of input: a terminal is told with ^D (its descriptor is the output's, too), a pipe by closing it."""
    fd = session.stdin_fd
    if fd is None:
        return
    if os.isatty(fd):
        with contextlib.suppress(OSError):
            os.write(fd, b"\x04")
        return
    session.stdin_fd = None
    os.close(fd)


async def _read(fd: int) -> bytes:
    """What can be read now, or as soon as there is something; b"" at the end."""
    loop = asyncio.get_running_loop()
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
    while data:
        try:
            data = data[os.write(fd, data) :]
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
