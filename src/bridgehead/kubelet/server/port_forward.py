"""A port-forward session: many connections to ports of a pod over one WebSocket.

Called by the kubelet's server. The messages of the WebSocket are the bytes of a SPDY connection (`spdy`). For each
forwarded connection the client opens two streams with the same `requestid`, one for errors and one for data.
`port_channels` is for clients without SPDY. Source: Kubernetes `pkg/kubelet/cri/streaming/portforward`, KEP-4006.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket as sockets
from collections.abc import Awaitable, Callable

from aiohttp import WSMsgType, web

from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from bridgehead.streaming import spdy

PROTOCOL = "SPDY/3.1+portforward.k8s.io"

_CHUNK = 32 * 1024

OpenPort = Callable[[int], Awaitable[sockets.socket]]


class _Connection:
    """A forwarded connection: its streams, and input that arrived before the port was open."""

    def __init__(self) -> None:
        self.error_stream: int | None = None
        self.data_stream: int | None = None
        self.port = ""
        self.input: asyncio.Queue[bytes] = asyncio.Queue()  # b"" ends it


class PortForward:
    """One session. `open_port` connects to a port of the pod; it raises `RuntimeFailure`."""

    def __init__(self, socket: web.WebSocketResponse, pod_name: str, open_port: OpenPort) -> None:
        self._socket = socket
        self._pod_name = pod_name
        self._open_port = open_port
        self._writer = spdy.Writer()
        self._requests: dict[str, _Connection] = {}
        self._by_stream: dict[int, _Connection] = {}

    async def run(self) -> None:
        """Run until the client disconnects or violates the protocol."""
        reader = spdy.Reader()
        async with asyncio.TaskGroup() as tasks:
            running: set[asyncio.Task[None]] = set()
            async for message in self._socket:
                if message.type is not WSMsgType.BINARY:
                    continue
                try:
                    frames = reader.feed_untrusted(message.data)
                except spdy.BadFrame:
                    break
                for frame in frames:
                    started = await self._process(frame)
                    if started is not None:
                        task = tasks.create_task(self._forward(started))
                        running.add(task)
                        task.add_done_callback(running.discard)
            for task in running:
                task.cancel()

    async def _process(self, frame: spdy.Frame) -> _Connection | None:
        """Process a frame; return the connection whose second stream it opened, if any."""
        match frame:
            case spdy.OpenStream():
                return await self._open(frame)
            case spdy.Data():
                connection = self._by_stream.get(frame.stream)
                if connection is not None and frame.stream == connection.data_stream:
                    if frame.content:
                        connection.input.put_nowait(frame.content)
                    if frame.ends:
                        connection.input.put_nowait(b"")
            case spdy.Reset():
                connection = self._by_stream.get(frame.stream)
                if connection is not None and frame.stream == connection.data_stream:
                    connection.input.put_nowait(b"")
            case spdy.Ping():
                await self._send(spdy.ping_frame(frame.number))
        return None

    async def _open(self, frame: spdy.OpenStream) -> _Connection | None:
        await self._send(self._writer.accept_stream(frame.stream))
        request = frame.headers.get("requestid", "")
        connection = self._requests.setdefault(request, _Connection())
        connection.port = frame.headers.get("port", "")
        self._by_stream[frame.stream] = connection
        if frame.headers.get("streamtype") == "error":
            connection.error_stream = frame.stream
        else:
            connection.data_stream = frame.stream
        if connection.error_stream is None or connection.data_stream is None:
            return None
        del self._requests[request]
        return connection

    async def _forward(self, connection: _Connection) -> None:
        error_stream, data_stream = connection.error_stream, connection.data_stream
        if error_stream is None or data_stream is None:
            return
        message = b""
        try:
            port = await self._open_port(int(connection.port))
        except (RuntimeFailure, ValueError) as error:
            message = f"error forwarding port {connection.port} to pod {self._pod_name}: {error}".encode()
        else:
            with port:
                await copy_port(port, connection.input, lambda data: self._send(spdy.data_frame(data_stream, data)))
        await self._send(spdy.data_frame(data_stream, b"", ends=True))
        await self._send(spdy.data_frame(error_stream, message, ends=True))
        del self._by_stream[error_stream], self._by_stream[data_stream]

    async def _send(self, frame: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the client has disconnected; `run` notices
            await self._socket.send_bytes(frame)


async def copy_port(
    port: sockets.socket, given: asyncio.Queue[bytes], send: Callable[[bytes], Awaitable[None]]
) -> None:
    """Copy bytes in both directions until the pod ends the connection. b"" in `given` is the end of the input."""
    loop = asyncio.get_running_loop()

    async def send_input() -> None:
        with contextlib.suppress(OSError):
            while data := await given.get():
                await loop.sock_sendall(port, data)
            port.shutdown(sockets.SHUT_WR)

    sender = asyncio.create_task(send_input())
    try:
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(port, _CHUNK):
                await send(data)
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
