"""An exec or attach session over a WebSocket: Kubernetes' remote command protocol, versions 4 and 5.

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

from bridgehead.kubelet.runtimes.runtime import ExecSession

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

STATUS_CHANNEL = b"\x03"

_STDOUT, _STDERR = b"\x01", b"\x02"
_CHUNK = 32 * 1024
# For output that is still in the pipes when the command has ended; a background child may hold them open for ever.
_DRAIN_SECONDS = 1.0


class TerminalSize(msgspec.Struct, frozen=True):
    """A message of channel 4, in characters."""

    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


def exit_status(exit_code: int) -> bytes:
    """Return the `Status` that ends an exec session."""
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
    """Return the `Status` that ends an attach session. The pod's status has the container's exit code."""
    return exit_status(0)


def failure_status(message: str) -> bytes:
    """Return the `Status` for a command that could not be started."""
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
    return msgspec.json.encode(status)


async def run_session(
    socket: web.WebSocketResponse,
    session: ExecSession,
    *,
    status: Callable[[int], bytes] = exit_status,
    ends_with_input: bool = False,
) -> None:
    """Copy bytes in both directions until the command has ended or the client has disconnected; then close the session.

    `status` renders the last message from the exit code. With `ends_with_input`, the end of the client's input ends the
    session instead of being passed on.
    """
    outputs = ((session.stdout_fd, _STDOUT), (session.stderr_fd, _STDERR))
    readers = [asyncio.create_task(_send_output(socket, fd, channel)) for fd, channel in outputs if fd is not None]
    feeder = asyncio.create_task(_receive_input(socket, session, stops_at_end=ends_with_input))
    ended = asyncio.create_task(session.wait())
    try:
        await asyncio.wait((feeder, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and socket.closed:
            return  # the client has disconnected
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
        finally:  # also if the server cancels this handler now, since the client has disconnected
            await session.close()


async def _send_output(socket: web.WebSocketResponse, fd: int, channel: bytes) -> None:
    while data := await _read(fd):
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(channel + data)


async def _receive_input(socket: web.WebSocketResponse, session: ExecSession, *, stops_at_end: bool) -> None:
    """Process messages until the client disconnects or, with `stops_at_end`, ends its input."""
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
                    stdin = None  # the command has closed its stdin
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
    """Signal the end of input: to a terminal with ^D, since its descriptor is also that of the output; to a pipe
    by closing it."""
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
    """Read the available bytes, waiting for the first one; b"" at the end."""
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
