"""The kubelet's end of the runtime's socket: the `Runtime` protocol for asyncio.

It connects when it is first used and again when it is used after the connection broke; a call that was under way then
raises `RuntimeFailure`, and so does `exits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

import msgspec

from bridgehead.kubelet.runtimes import messages
from bridgehead.kubelet.runtimes.runtime import (
    ContainerInfo,
    ContainerSpec,
    ExecResult,
    Image,
    ImageUnavailable,
    RuntimeFailure,
    RuntimeFeatures,
    SandboxInfo,
    SandboxSpec,
    port_refused,
)

T = TypeVar("T")

_FAILURES: Final[dict[str, type[Exception]]] = {
    "ImageUnavailable": ImageUnavailable,
    "RuntimeFailure": RuntimeFailure,
    "TimeoutError": TimeoutError,
}
_decoder = msgspec.msgpack.Decoder(messages.FromRuntime)


class PortRefused(RuntimeFailure):
    """Nobody listens on that port of that address of the pod."""


class RuntimeClient:
    """Use as an async context manager, or `close` it. Belongs to the event loop in which it is first used."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._link: _Link | None = None
        self._connecting = asyncio.Lock()
        self._subscribers: list[asyncio.Queue[ContainerInfo | None]] = []
        self._closed = False

    async def __aenter__(self) -> RuntimeClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        if self._link is not None:
            self._link.break_off("closed")
        for queue in self._subscribers:
            queue.put_nowait(None)

    async def find_features(self) -> RuntimeFeatures:
        return await self._call(messages.FindFeatures(), RuntimeFeatures)

    async def find_image(self, name: str) -> Image:
        return await self._call(messages.FindImage(name), Image)

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxInfo:
        return await self._call(messages.RunSandbox(spec), SandboxInfo)

    async def remove_sandbox(self, pod_uid: str) -> None:
        await self._call(messages.RemoveSandbox(pod_uid), type(None))

    async def list_sandboxes(self) -> list[SandboxInfo]:
        return await self._call(messages.ListSandboxes(), list[SandboxInfo])

    async def start_container(self, spec: ContainerSpec) -> ContainerInfo:
        return await self._call(messages.StartContainer(spec), ContainerInfo)

    async def signal_container(self, container_id: str, signal: int) -> None:
        await self._call(messages.SignalContainer(container_id, signal), type(None))

    async def list_containers(self) -> list[ContainerInfo]:
        return await self._call(messages.ListContainers(), list[ContainerInfo])

    async def exec_in_container(self, container_id: str, argv: tuple[str, ...], *, timeout: float) -> ExecResult:
        return await self._call(messages.Exec(container_id, argv, timeout), ExecResult)

    async def open_exec(
        self, container_id: str, argv: tuple[str, ...], *, stdin: bool, tty: bool, stderr: bool = True
    ) -> RemoteSession:
        link = await self._connect()
        reply = await link.ask(messages.OpenExec(container_id, argv, stdin, tty, stderr))
        number = msgspec.msgpack.decode(reply.value, type=int)
        return RemoteSession(link, number, reply.descriptors, stdin=stdin, tty=tty)

    async def open_attach(self, container_id: str, *, stdin: bool, stderr: bool = True) -> RemoteSession:
        link = await self._connect()
        reply = await link.ask(messages.Attach(container_id, stdin, stderr))
        number, tty = msgspec.msgpack.decode(reply.value, type=tuple[int, bool])
        return RemoteSession(link, number, reply.descriptors, stdin=stdin, tty=tty)

    async def open_port(self, pod_uid: str, port: int) -> socket.socket:
        """A non-blocking stream to a port on the pod's own loopback, its IPv4 or else its IPv6 address. Raises
        `RuntimeFailure`, also when it is refused."""
        link = await self._connect()
        try:
            return await self._open_port(link, pod_uid, port, "127.0.0.1")
        except PortRefused as error:
            first = error
        try:
            return await self._open_port(link, pod_uid, port, "::1")
        except RuntimeFailure as second:  # or there is no IPv6 at all
            raise RuntimeFailure(
                f'failed to connect to localhost:{port} inside namespace "{pod_uid}", IPv4: {first} IPv6 {second}'
            ) from second

    async def _open_port(self, link: _Link, pod_uid: str, port: int, address: str) -> socket.socket:
        """Raises `PortRefused`, `RuntimeFailure`."""
        reply = await link.ask(messages.OpenPort(pod_uid, port, address))
        stream = socket.socket(fileno=reply.descriptors[0])
        stream.setblocking(False)
        try:
            await _wait_writable(stream)
            code = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except BaseException:
            stream.close()
            raise
        if code:
            stream.close()
            raise PortRefused(port_refused(address, port, code))
        return stream

    async def exits(self) -> AsyncIterator[ContainerInfo]:
        """Containers as they exit, from now on. Raises `RuntimeFailure` when the connection breaks: what was missed
        since then, list_containers tells. Ends when the client is closed."""
        queue: asyncio.Queue[ContainerInfo | None] = asyncio.Queue()
        self._subscribers.append(queue)
        try:
            await self._connect()
            while (told := await queue.get()) is not None:
                yield told
        finally:
            self._subscribers.remove(queue)
        if not self._closed:
            raise RuntimeFailure("the connection to the runtime broke")

    async def _call(self, call: messages.Call, kind: type[T]) -> T:
        link = await self._connect()
        reply = await link.ask(call)
        return msgspec.msgpack.decode(reply.value, type=kind)

    async def _connect(self) -> _Link:
        """Raises `RuntimeFailure`."""
        if self._closed:
            raise RuntimeFailure("the runtime's client is closed")
        if self._link is not None and not self._link.broken:
            return self._link
        async with self._connecting:
            if self._link is None or self._link.broken:
                stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                stream.setblocking(False)
                try:
                    await asyncio.get_running_loop().sock_connect(stream, self._socket_path)
                except BaseException as error:
                    stream.close()
                    if isinstance(error, OSError):
                        raise RuntimeFailure(
                            f"no container runtime on {self._socket_path}: {error.strerror or error}"
                        ) from error
                    raise
                self._link = _Link(stream, self._tell)
            return self._link

    def _tell(self, container: ContainerInfo | None) -> None:
        for queue in self._subscribers:
            queue.put_nowait(container)


class _Answer(msgspec.Struct, frozen=True):
    value: msgspec.Raw
    descriptors: list[int]


class _Link:
    """One connection. Reads by itself; `broken` once it is of no use any more."""

    def __init__(self, stream: socket.socket, tell: Any) -> None:
        self._stream = stream
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._frames = messages.FrameBuffer()
        self._descriptors: deque[int] = deque()
        self._pending: dict[int, asyncio.Future[_Answer]] = {}
        self.sessions: dict[int, asyncio.Future[int]] = {}
        self._last = 0
        self._unsent = bytearray()
        self.broken = False
        self._loop.add_reader(stream.fileno(), self._read)

    async def ask(self, call: messages.Call) -> _Answer:
        """Raises what the runtime answers, or `RuntimeFailure` when the connection breaks."""
        if self.broken:
            raise RuntimeFailure("the connection to the runtime is broken")
        self._last += 1
        number = self._last
        future: asyncio.Future[_Answer] = self._loop.create_future()
        self._pending[number] = future
        self._send(messages.encode_frame(messages.Request(number, call)))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                for fd in future.result().descriptors:  # the answer came at the same moment
                    os.close(fd)
            raise
        finally:
            self._pending.pop(number, None)  # when nobody waits any more, `_take` closes an answer's descriptors

    def ask_nowait(self, call: messages.Call) -> None:
        """Ask for something whose answer nobody waits for."""
        if not self.broken:
            self._last += 1
            self._send(messages.encode_frame(messages.Request(self._last, call)))

    def break_off(self, why: str) -> None:
        if self.broken:
            return
        self.broken = True
        self._loop.remove_reader(self._stream.fileno())
        self._loop.remove_writer(self._stream.fileno())
        self._stream.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())
        error = RuntimeFailure(f"the connection to the runtime broke: {why}")
        for future in self._pending.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waited has it; nobody need fetch it twice
        for session in self.sessions.values():
            if not session.done():
                session.set_result(137)  # the runtime ends the sessions of a connection with it
        self._tell(None)

    def _send(self, frame: bytes) -> None:
        self._unsent += frame
        self._flush()

    def _flush(self) -> None:
        try:
            sent = self._stream.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.break_off(str(error))
            return
        del self._unsent[:sent]
        if self._unsent:
            self._loop.add_writer(self._stream.fileno(), self._flush)
        else:
            self._loop.remove_writer(self._stream.fileno())

    def _read(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._stream, 65536, 16)
        except BlockingIOError:
            return
        except OSError as error:
            self.break_off(str(error))
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        self._descriptors.extend(fds)
        if not data:
            self.break_off("the runtime has gone")
            return
        try:
            for body in self._frames.feed(data):
                self._take(_decoder.decode(body))
        except (messages.BadFrame, msgspec.DecodeError) as error:
            self.break_off(str(error))

    def _take(self, message: messages.FromRuntime) -> None:
        if isinstance(message, messages.Exited):
            self._tell(message.container)
        elif isinstance(message, messages.ExecEnded):
            session = self.sessions.setdefault(message.session, self._loop.create_future())
            if not session.done():
                session.set_result(message.exit_code)
        else:
            descriptors = [self._descriptors.popleft() for _ in range(message.descriptors)]
            future = self._pending.pop(message.id, None)
            if future is None or future.done() or message.failure:
                for fd in descriptors:
                    os.close(fd)
            if future is None or future.done():
                return
            if message.failure:
                words = msgspec.msgpack.decode(message.result, type=str)
                future.set_exception(_FAILURES.get(message.failure, RuntimeFailure)(words))
            else:
                future.set_result(_Answer(message.result, descriptors))


class RemoteSession:
    """`ExecSession` of a runtime. The descriptors are non-blocking and the caller's to use; `close` closes what is
    left."""

    def __init__(self, link: _Link, number: int, descriptors: list[int], *, stdin: bool, tty: bool) -> None:
        self._link = link
        self._number = number
        self._ended = link.sessions.setdefault(number, asyncio.get_running_loop().create_future())
        self._terminal: int | None = None
        self.stdin_fd: int | None = None
        self.stdout_fd: int | None = None
        self.stderr_fd: int | None = None
        if tty:
            # An attached container's output comes apart, because its log has it, too.
            self._terminal = descriptors[0]
            self.stdout_fd = descriptors[1] if len(descriptors) > 1 else os.dup(descriptors[0])
            self.stdin_fd = os.dup(descriptors[0]) if stdin else None
        else:
            rest = list(descriptors)
            self.stdin_fd = rest.pop(0) if stdin else None
            self.stdout_fd = rest.pop(0)
            self.stderr_fd = rest.pop(0) if rest else None
        for fd in (self.stdin_fd, self.stdout_fd, self.stderr_fd):
            if fd is not None:
                os.set_blocking(fd, False)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def resize(self, columns: int, rows: int) -> None:
        """Fine without a terminal, or when it has gone."""
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def close(self) -> None:
        """Descriptors that the caller took over must be set to None before."""
        for name in ("stdin_fd", "stdout_fd", "stderr_fd", "_terminal"):
            fd = getattr(self, name)
            if fd is not None:
                setattr(self, name, None)
                with contextlib.suppress(OSError):
                    os.close(fd)
        if not self._ended.done():
            self._link.ask_nowait(messages.CloseExec(self._number))
        # The runtime's word of the end is still to come: it finds the session and takes it out.
        self._ended.add_done_callback(lambda _: self._link.sessions.pop(self._number, None))


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _wait_writable(stream: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(stream.fileno(), _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_writer(stream.fileno())
