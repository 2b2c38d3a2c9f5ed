"""Exec, attach and port-forward over SPDY, for clients that do not speak WebSocket: kubectl before 1.31.

The application supports only WebSockets. `SpdyProtocol` presents a connection that was upgraded to SPDY/3.1 as a
WebSocket of the subprotocol v5.channel.k8s.io: each SPDY stream is a channel, and the end of a stream is that version's
close message. SPDY frames of port-forward pass unchanged, as in kubectl's own tunnel through a WebSocket (KEP-4006).
`server` hands connections over.
Source: Kubernetes `apimachinery/pkg/util/httpstream/spdy` and `remotecommand/constants.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from bridgehead.go_http import render_head
from bridgehead.streaming import spdy

from .paths import is_true, parse_query
from .request import Scope, date_header

log = logging.getLogger(__name__)

_UPGRADE = b"spdy/3.1"
_VERSION_HEADER = b"x-stream-protocol-version"
_CHANNELS = {"stdin": 0, "stdout": 1, "stderr": 2, "error": 3, "resize": 4}
_STDIN, _CLOSE = 0, 255
# The client's protocol version -> the WebSocket subprotocol with the same content. Versions before v4 have another
# form for the exit code, into which v5's cannot be translated.
_VERSIONS = {
    b"v5.channel.k8s.io": "v5.channel.k8s.io",
    b"v4.channel.k8s.io": "v5.channel.k8s.io",
    b"portforward.k8s.io": "SPDY/3.1+portforward.k8s.io",
}
# For clients without a supported version. No subprotocol at all would mean that of channel.k8s.io.
_UNSUPPORTED = "unsupported"
_MAX_QUEUED_MESSAGES = 64
_ABNORMAL_CLOSURE = 1006  # RFC 6455, 7.4.1
_OPEN_SECONDS = 10.0  # for the client to open the streams that it asked for


def is_requested(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the Upgrade header of a request that asks for an upgrade names SPDY/3.1."""
    return any(name == b"upgrade" and value.lower() == _UPGRADE for name, value in headers)


Application = Callable[[Scope, Any, Any], Coroutine[Any, Any, None]]


class SpdyProtocol(asyncio.Protocol):
    """One upgraded connection. `scope` is the HTTP request's; `tasks` keeps the application's run alive."""

    def __init__(
        self, application: Application, scope: Scope, transport: asyncio.Transport, tasks: set[asyncio.Task[None]]
    ) -> None:
        self._application = application
        self._transport = transport
        self._received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._received.put_nowait({"type": "websocket.connect"})
        self._writable = asyncio.Event()
        self._writable.set()
        self._status = 0
        offered = [
            word.strip() for name, value in scope["headers"] if name == _VERSION_HEADER for word in value.split(b",")
        ]
        # The client's first version that is supported here.
        self._version = next((version for version in offered if version in _VERSIONS), b"")
        self._streams = None if self._version == b"portforward.k8s.io" else _Streams(_expected_channels(scope))
        self._opened = asyncio.Event()
        self._scope: Scope = {
            **scope,
            "type": "websocket",
            "scheme": "wss",
            "subprotocols": [_VERSIONS[self._version] if self._version else _UNSUPPORTED],
            "extensions": {"websocket.http.response": {}},
        }
        transport.set_protocol(self)
        task = asyncio.get_running_loop().create_task(self._run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._receive, self._send)
        except Exception:
            log.exception("%s over SPDY failed", self._scope.get("path"))
        finally:
            self._transport.close()

    # --- From the client ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._streams is None:
            self._queue(data)
            return
        try:
            messages, answer = self._streams.take_untrusted(data)
        except spdy.BadFrame as error:
            log.info("%s: %s", self._scope.get("path"), error)
            self._transport.abort()
            return
        if answer:
            self._transport.write(answer)
        if self._streams.are_open:
            self._opened.set()
        for message in messages:
            self._queue(message)

    def _queue(self, message: bytes) -> None:
        self._received.put_nowait({"type": "websocket.receive", "bytes": message})
        if self._received.qsize() >= _MAX_QUEUED_MESSAGES:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._opened.set()
        self._received.put_nowait({"type": "websocket.disconnect", "code": _ABNORMAL_CLOSURE})

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def _receive(self) -> dict[str, Any]:
        message = await self._received.get()
        if self._received.qsize() < _MAX_QUEUED_MESSAGES and not self._transport.is_closing():
            self._transport.resume_reading()
        return message

    # --- To the client -----------------------------------------------------------------------------------------

    async def _send(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "websocket.accept":
                self._write_head(101, [(b"connection", b"Upgrade"), (b"upgrade", b"SPDY/3.1")])
            case "websocket.http.response.start":
                self._write_head(message["status"], [*message["headers"], date_header(), (b"connection", b"close")])
            case "websocket.http.response.body":
                self._transport.write(message.get("body", b""))
            case "websocket.send":
                data = message["bytes"]
                self._transport.write(data if self._streams is None else self._streams.send(data))
            case "websocket.close":
                if not self._status:
                    self._write_head(403, [(b"content-length", b"0"), date_header(), (b"connection", b"close")])
                elif self._streams is not None:
                    # A short command may end before a slow client has opened the streams for its output.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_OPEN_SECONDS):
                            await self._opened.wait()
                    self._transport.write(self._streams.end())
        await self._writable.wait()

    def _write_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._status = status
        if status == 101:
            headers.append((_VERSION_HEADER, self._version))
        self._transport.write(render_head(status, headers))


def _expected_channels(scope: Scope) -> frozenset[int]:
    """The channels for which the client will open streams: those of its query, and always the one for errors."""
    query = parse_query(scope.get("query_string", b""))
    names = {"error"} | {name for name in ("stdin", "stdout", "stderr") if is_true(query, name)}
    if is_true(query, "tty"):
        names = names - {"stderr"} | {"resize"}
    return frozenset(_CHANNELS[name] for name in names)


class _Streams:
    """Translation between the client's SPDY streams and the channels of a WebSocket, without I/O."""

    def __init__(self, expected: frozenset[int]) -> None:
        self._expected = expected
        self._reader = spdy.Reader()
        self._writer = spdy.Writer()
        self._channels: dict[int, int] = {}  # by stream
        self._streams: dict[int, int] = {}  # by channel
        # Output of channels for which the client has not opened a stream yet.
        self._early: dict[int, bytes] = {}

    @property
    def are_open(self) -> bool:
        """Whether the client has opened all streams that it asked for."""
        return self._expected <= self._streams.keys()

    def take_untrusted(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Return messages for the application, and bytes to send back to the client. Raises `spdy.BadFrame`."""
        messages: list[bytes] = []
        answer = b""
        for frame in self._reader.feed_untrusted(data):
            match frame:
                case spdy.OpenStream():
                    answer += self._open(frame)
                case spdy.Ping():
                    answer += spdy.ping_frame(frame.number)
                case spdy.Data():
                    channel = self._channels.get(frame.stream)
                    if channel is not None and frame.content:
                        messages.append(bytes([channel]) + frame.content)
                    if channel == _STDIN and frame.ends:
                        messages.append(bytes([_CLOSE, _STDIN]))
                case spdy.Reset() if self._channels.get(frame.stream) == _STDIN:
                    messages.append(bytes([_CLOSE, _STDIN]))
        return messages, answer

    def _open(self, frame: spdy.OpenStream) -> bytes:
        channel = _CHANNELS.get(frame.headers.get("streamtype", ""))
        if channel is None or channel in self._streams:
            return spdy.reset_frame(frame.stream)
        self._channels[frame.stream] = channel
        self._streams[channel] = frame.stream
        early = self._early.pop(channel, b"")
        return self._writer.accept_stream(frame.stream) + (spdy.data_frame(frame.stream, early) if early else b"")

    def send(self, message: bytes) -> bytes:
        """Return one message of the application as frames for the client."""
        channel, content = message[0], message[1:]
        if channel == _CLOSE:
            stream = self._streams.get(content[0]) if content else None
            return b"" if stream is None else spdy.data_frame(stream, b"", ends=True)
        stream = self._streams.get(channel)
        if stream is None:
            self._early[channel] = self._early.get(channel, b"") + content
            return b""
        return spdy.data_frame(stream, content)

    def end(self) -> bytes:
        """Return the frames that end every stream to the client."""
        return b"".join(
            spdy.data_frame(stream, b"", ends=True) for channel, stream in self._streams.items() if channel != _STDIN
        )
