"""The kubelet's client of the runtime: the `Runtime` protocol for asyncio, over the runtime's socket.

The client connects at the first call, and again at the first call after the connection broke. Calls in flight when the
connection breaks raise `RuntimeFailure`, and so does `exits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar

import msgspec

from bridgehead.kubelet.runtimes.runtime import (
    ContainerInfo,
    ContainerRefused,
    ContainerSpec,
    ExecResult,
    Image,
    ImageUnavailable,
    Limits,
    RuntimeFailure,
    RuntimeFeatures,
    SandboxInfo,
    SandboxMissing,
    SandboxSpec,
    port_refused,
)

from . import messages

T = TypeVar("T")

_KILLED: Final = 137  # 128 + SIGKILL

_FAILURES: Final[dict[str, type[Exception]]] = {
    "ContainerRefused": ContainerRefused,
    "ImageUnavailable": ImageUnavailable,
    "RuntimeFailure": RuntimeFailure,
    "SandboxMissing": SandboxMissing,
    "TimeoutError": TimeoutError,
}
_decoder = msgspec.msgpack.Decoder(messages.FromRuntime)


OnCall = Callable[[str, float, bool], None]


def _ignore(call: str, seconds: float, has_failed: bool) -> None: ...


class PortRefused(RuntimeFailure):
    """No program listens on that port of that address of the pod."""


class RuntimeClient:
    """Use as an async context manager, or `close` it. Belongs to the event loop in which it is first used."""

    def __init__(self, socket_path: str, on_call: OnCall = _ignore) -> None:
        """`on_call` gets the name of each call's message, the seconds that it took, and whether it failed."""
        self._socket_path = socket_path
        self._on_call = on_call
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._subscribers: list[asyncio.Queue[ContainerInfo | None]] = []
        self._closed = False

    async def __aenter__(self) -> RuntimeClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.abort("closed")
        for queue in self._subscribers:
            queue.put_nowait(None)

    async def find_features(self) -> RuntimeFeatures:
        return await self._call(messages.FindFeatures(), RuntimeFeatures)

    async def find_image(self, name: str) -> Image:
        return await self._call(messages.FindImage(name), Image)

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxInfo:
        return await self._call(messages.RunSandbox(spec), SandboxInfo)

    async def update_sandbox(self, pod_uid: str, limits: Limits) -> None:
        await self._call(messages.UpdateSandbox(pod_uid, limits), type(None))

    async def remove_sandbox(self, pod_uid: str) -> None:
        await self._call(messages.RemoveSandbox(pod_uid), type(None))

    async def list_sandboxes(self) -> list[SandboxInfo]:
        return await self._call(messages.ListSandboxes(), list[SandboxInfo])

    async def start_container(self, spec: ContainerSpec) -> ContainerInfo:
        return await self._call(messages.StartContainer(spec), ContainerInfo)

    async def update_container(self, container_id: str, limits: Limits) -> None:
        await self._call(messages.UpdateContainer(container_id, limits), type(None))

    async def signal_container(self, container_id: str, signal: int) -> None:
        await self._call(messages.SignalContainer(container_id, signal), type(None))

    async def measure_layers(self, pod_uid: str) -> dict[str, int]:
        return await self._call(messages.MeasureLayers(pod_uid), dict[str, int])

    async def list_containers(self) -> list[ContainerInfo]:
        return await self._call(messages.ListContainers(), list[ContainerInfo])

    async def exec_in_container(self, container_id: str, argv: tuple[str, ...], *, timeout: float) -> ExecResult:
        return await self._call(messages.Exec(container_id, argv, timeout), ExecResult)

    async def open_exec(
        self, container_id: str, argv: tuple[str, ...], *, stdin: bool, tty: bool, stderr: bool = True
    ) -> RemoteSession:
        connection = await self._connect()
        reply = await connection.call(messages.OpenExec(container_id, argv, stdin, tty, stderr))
        number = msgspec.msgpack.decode(reply.value, type=int)
        return RemoteSession(connection, number, reply.descriptors, stdin=stdin, tty=tty)

    async def open_attach(self, container_id: str, *, stdin: bool, stderr: bool = True) -> RemoteSession:
        connection = await self._connect()
        reply = await connection.call(messages.Attach(container_id, stdin, stderr))
        number, tty = msgspec.msgpack.decode(reply.value, type=tuple[int, bool])
        return RemoteSession(connection, number, reply.descriptors, stdin=stdin, tty=tty)

    async def open_port(self, pod_uid: str, port: int) -> socket.socket:
        """A non-blocking stream to a port on the pod's own loopback, its IPv4 or else its IPv6 address. Raises
        `RuntimeFailure`, also when it is refused."""
        connection = await self._connect()
        try:
            return await self._open_port(connection, pod_uid, port, "127.0.0.1")
        except PortRefused as error:
            first = error
        try:
            return await self._open_port(connection, pod_uid, port, "::1")
        except RuntimeFailure as second:  # or there is no IPv6
            raise RuntimeFailure(
                f'failed to connect to localhost:{port} inside namespace "{pod_uid}", IPv4: {first} IPv6 {second}'
            ) from second

    async def _open_port(self, connection: _Connection, pod_uid: str, port: int, address: str) -> socket.socket:
        """Raises `PortRefused`, `RuntimeFailure`."""
        reply = await connection.call(messages.OpenPort(pod_uid, port, address))
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
        """Containers as they exit, from now on. Ends when the client is closed.

        Raises `RuntimeFailure` when the connection breaks: `list_containers` returns the exits that were missed.
        """
        queue: asyncio.Queue[ContainerInfo | None] = asyncio.Queue()
        self._subscribers.append(queue)
        try:
            await self._connect()
            while (exited := await queue.get()) is not None:
                yield exited
        finally:
            self._subscribers.remove(queue)
        if not self._closed:
            raise RuntimeFailure("the connection to the runtime broke")

    async def _call(self, call: messages.Call, kind: type[T]) -> T:
        began, has_failed = time.perf_counter(), True
        try:
            connection = await self._connect()
            reply = await connection.call(call)
            has_failed = False
        finally:
            self._on_call(type(call).__name__, time.perf_counter() - began, has_failed)
        return msgspec.msgpack.decode(reply.value, type=kind)

    async def _connect(self) -> _Connection:
        """Raises `RuntimeFailure`."""
        if self._closed:
            raise RuntimeFailure("the runtime's client is closed")
        if self._connection is not None and not self._connection.is_broken:
            return self._connection
        async with self._connecting:
            if self._connection is None or self._connection.is_broken:
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
                self._connection = _Connection(stream, self._publish)
            return self._connection

    def _publish(self, container: ContainerInfo | None) -> None:
        for queue in self._subscribers:
            queue.put_nowait(container)


class _Response(msgspec.Struct, frozen=True):
    value: msgspec.Raw
    descriptors: list[int]


class _Connection:
    """A connection to the runtime. `on_exit` gets each container that exits, None when the connection breaks."""

    def __init__(self, stream: socket.socket, on_exit: Callable[[ContainerInfo | None], None]) -> None:
        self._stream = stream
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._frames = messages.FrameBuffer()
        self._descriptors: deque[int] = deque()
        self._pending: dict[int, asyncio.Future[_Response]] = {}
        self.sessions: dict[int, asyncio.Future[int]] = {}
        self._last = 0
        self._unsent = bytearray()
        self.is_broken = False
        self._loop.add_reader(stream.fileno(), self._read)

    async def call(self, request: messages.Call) -> _Response:
        """Send a request and wait for the reply.

        Raises the runtime's failure, or `RuntimeFailure` when the connection breaks.
        """
        if self.is_broken:
            raise RuntimeFailure("the connection to the runtime is broken")
        self._last += 1
        number = self._last
        future: asyncio.Future[_Response] = self._loop.create_future()
        self._pending[number] = future
        self._send(messages.encode_frame(messages.Request(number, request)))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                for fd in future.result().descriptors:  # the reply came at the same moment
                    os.close(fd)
            raise
        finally:
            self._pending.pop(number, None)  # without a waiting call, `_handle` closes a reply's descriptors

    def call_nowait(self, request: messages.Call) -> None:
        """Send a request whose reply is ignored."""
        if not self.is_broken:
            self._last += 1
            self._send(messages.encode_frame(messages.Request(self._last, request)))

    def abort(self, reason: str) -> None:
        if self.is_broken:
            return
        self.is_broken = True
        self._loop.remove_reader(self._stream.fileno())
        self._loop.remove_writer(self._stream.fileno())
        self._stream.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())
        error = RuntimeFailure(f"the connection to the runtime broke: {reason}")
        for future in self._pending.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # marked as retrieved, also when no call waits
        for session in self.sessions.values():
            if not session.done():
                session.set_result(_KILLED)  # the runtime ends the sessions of a broken connection
        self._on_exit(None)

    def _send(self, frame: bytes) -> None:
        self._unsent += frame
        self._flush()

    def _flush(self) -> None:
        try:
            sent = self._stream.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self.abort(str(error))
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
            self.abort(str(error))
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        self._descriptors.extend(fds)
        if not data:
            self.abort("the runtime has gone")
            return
        try:
            for body in self._frames.feed(data):
                self._handle(_decoder.decode(body))
        except (messages.BadFrame, msgspec.DecodeError) as error:
            self.abort(str(error))

    def _handle(self, message: messages.FromRuntime) -> None:
        if isinstance(message, messages.Exited):
            self._on_exit(message.container)
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
                text = msgspec.msgpack.decode(message.result, type=str)
                future.set_exception(_FAILURES.get(message.failure, RuntimeFailure)(text))
            else:
                future.set_result(_Response(message.result, descriptors))


class RemoteSession:
    """An `ExecSession` of a runtime. The descriptors are non-blocking; `close` closes those that the session has."""

    def __init__(self, connection: _Connection, number: int, descriptors: list[int], *, stdin: bool, tty: bool) -> None:
        self._connection = connection
        self._number = number
        self._ended = connection.sessions.setdefault(number, asyncio.get_running_loop().create_future())
        self._terminal: int | None = None
        self.stdin_fd: int | None = None
        self.stdout_fd: int | None = None
        self.stderr_fd: int | None = None
        if tty:
            # The output of an attached container has a descriptor of its own, because the runtime logs it, too.
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
        """Set the terminal's size. Does nothing without a terminal, or when it has gone."""
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def close(self) -> None:
        """Close the descriptors. Set those that the caller keeps to None before."""
        for name in ("stdin_fd", "stdout_fd", "stderr_fd", "_terminal"):
            fd = getattr(self, name)
            if fd is not None:
                setattr(self, name, None)
                with contextlib.suppress(OSError):
                    os.close(fd)
        if not self._ended.done():
            self._connection.call_nowait(messages.CloseExec(self._number))
        # The session is removed when the runtime reports its end.
        self._ended.add_done_callback(lambda _: self._connection.sessions.pop(self._number, None))


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
