"""A port-forward session: many connections to ports of a pod over one SPDY connection.

Called by the kubelet's server. The SPDY connection is the client's own, or the messages of its WebSocket are the bytes
of one. For each forwarded connection the client opens two streams with the same `requestid`, one for errors and one for
data. `port_channels` is for clients without SPDY. Source: Kubernetes `pkg/kubelet/cri/streaming/portforward`, KEP-4006.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket as sockets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from bridgehead.streaming import spdy, websocket
from bridgehead.streaming.byte_stream import ByteStream

from .channels import SocketMessages
from .port_channels import parse_port
from .port_copy import Input, PortCopy

TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
SPDY_PROTOCOLS = {"portforward.k8s.io": "portforward.k8s.io"}

# Number of connections of which one stream is open, and the time for the client to open the other
# (DefaultStreamCreationTimeout).
_MAX_INCOMPLETE = 256
_OPEN_SECONDS = 30.0

OpenPort = Callable[[int], Awaitable[sockets.socket]]


class Carrier(Protocol):
    """A way to carry the bytes of a SPDY connection."""

    def received(self) -> AsyncIterator[bytes]:
        """Yield the client's bytes until it leaves."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes. Does nothing when the client has left."""
        ...


class StreamCarrier:
    """A SPDY connection of the client's own."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def received(self) -> AsyncIterator[bytes]:
        while data := await self._stream.read():
            yield data

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._stream.write(data)


class SocketCarrier:
    """A SPDY connection in the messages of a WebSocket."""

    def __init__(self, stream: ByteStream) -> None:
        self._messages = SocketMessages(stream)

    async def received(self) -> AsyncIterator[bytes]:
        async for piece in self._messages.pieces():
            if not piece.is_text:
                yield piece.content

    async def write(self, data: bytes) -> None:
        await self._messages.write(websocket.message_frame(data))

    async def finish(self) -> None:
        await self._messages.close(websocket.NORMAL_CLOSURE)


class _Connection:
    """A forwarded connection: its streams, and the client's bytes."""

    def __init__(self, request: str, port: int) -> None:
        self.request = request
        self.port = port
        self.error_stream: int | None = None
        self.data_stream: int | None = None
        self.input = Input()
        self.timer: asyncio.TimerHandle | None = None  # while one stream is missing
        self.task: asyncio.Task[None] | None = None


class PortForward:
    """One session. `open_port` connects to a port of the pod; it raises `RuntimeFailure`.

    `open_seconds`: for the client to open the second stream of a connection.
    """

    def __init__(
        self, carrier: Carrier, pod_name: str, open_port: OpenPort, *, open_seconds: float = _OPEN_SECONDS
    ) -> None:
        self._open_seconds = open_seconds
        self._carrier = carrier
        self._pod_name = pod_name
        self._open_port = open_port
        self._writer = spdy.Writer()
        self._incomplete: dict[str, _Connection] = {}
        self._by_stream: dict[int, _Connection] = {}
        self._has_left = asyncio.Event()

    async def run(self) -> None:
        """Run until the client leaves or violates the protocol, and what it sent is delivered."""
        reader = spdy.Reader()
        async with asyncio.TaskGroup() as tasks:
            async for data in self._carrier.received():
                try:
                    frames = reader.feed_untrusted(data)
                except spdy.BadFrame:
                    break
                for frame in frames:
                    started = await self._process(frame)
                    if started is not None:
                        started.task = tasks.create_task(self._forward(started))
                        started.task.add_done_callback(functools.partial(self._forget, started))
            self._has_left.set()
            for connection in list(self._incomplete.values()):
                self._forget(connection)
            for connection in self._by_stream.values():
                connection.input.end()

    async def _process(self, frame: spdy.Frame) -> _Connection | None:
        """Process a frame; return the connection whose second stream it opened, if any."""
        match frame:
            case spdy.OpenStream():
                return await self._open(frame)
            case spdy.Data():
                connection = self._by_stream.get(frame.stream)
                if connection is not None and frame.stream == connection.data_stream:
                    if frame.content and connection.task is not None:
                        await connection.input.put(frame.content)
                    elif frame.content:
                        await self._keep_early(connection, frame)
                    if frame.ends:
                        connection.input.end()
            case spdy.Reset():
                connection = self._by_stream.get(frame.stream)
                if connection is not None and connection.task is not None:
                    connection.task.cancel()
                elif connection is not None:
                    self._forget(connection)
            case spdy.Ping():
                await self._carrier.write(spdy.ping_frame(frame.number))
        return None

    async def _keep_early(self, connection: _Connection, frame: spdy.Data) -> None:
        """Keep bytes for a connection whose other stream is not open, without waiting until they are taken."""
        connection.input.add(frame.content)
        if connection.input.is_full:
            connection.input.drop()
            await self._carrier.write(spdy.reset_frame(frame.stream))

    async def _open(self, frame: spdy.OpenStream) -> _Connection | None:
        connection = self._connection_of(frame)
        if connection is None:
            await self._carrier.write(spdy.reset_frame(frame.stream))
            return None
        await self._carrier.write(self._writer.accept_stream(frame.stream))
        self._by_stream[frame.stream] = connection
        if _is_error(frame):
            connection.error_stream = frame.stream
        else:
            connection.data_stream = frame.stream
            if frame.ends:
                connection.input.end()
        if connection.error_stream is None or connection.data_stream is None:
            return None
        self._complete(connection)
        return connection

    def _connection_of(self, frame: spdy.OpenStream) -> _Connection | None:
        """Return the connection to which a new stream belongs, None for a stream that is refused."""
        text = frame.headers.get("port", "")
        try:
            port = parse_port(text, text)
        except ValueError:
            return None
        if frame.headers.get("streamtype") not in ("error", "data") or frame.stream in self._by_stream:
            return None
        request = frame.headers.get("requestid", "")
        connection = self._incomplete.get(request)
        if connection is not None:
            is_open = (connection.error_stream if _is_error(frame) else connection.data_stream) is not None
            return None if is_open else connection
        if len(self._incomplete) >= _MAX_INCOMPLETE:
            return None
        connection = self._incomplete[request] = _Connection(request, port)
        # Data on a stream whose connection never begins would wait for ever, and the session with it.
        timer = asyncio.get_running_loop().call_later(self._open_seconds, self._forget, connection)
        connection.timer = timer
        return connection

    def _complete(self, connection: _Connection) -> None:
        """Do not count a connection as incomplete: both of its streams are open, or it is given up."""
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
            del self._incomplete[connection.request]

    async def _forward(self, connection: _Connection) -> None:
        error_stream, data_stream = connection.error_stream, connection.data_stream
        if error_stream is None or data_stream is None:
            return

        async def send(data: bytes) -> None:
            await self._carrier.write(spdy.data_frame(data_stream, data))

        async def end_data() -> None:
            await self._carrier.write(spdy.data_frame(data_stream, b"", ends=True))

        try:
            port = await self._open_port(connection.port)
        except RuntimeFailure as error:
            message = f"error forwarding port {connection.port} to pod {self._pod_name}: {error}".encode()
            await end_data()
            await self._carrier.write(spdy.data_frame(error_stream, message, ends=True))
        else:
            with port:
                await PortCopy(port, connection.input, send, self._has_left).run(end_data)
            await self._carrier.write(spdy.data_frame(error_stream, b"", ends=True))

    def _forget(self, connection: _Connection, _: asyncio.Task[None] | None = None) -> None:
        self._complete(connection)
        connection.input.drop()
        for stream in (connection.error_stream, connection.data_stream):
            if stream is not None:
                self._by_stream.pop(stream, None)


def _is_error(frame: spdy.OpenStream) -> bool:
    return frame.headers.get("streamtype") == "error"
