"""Numbered channels of one connection, which exec, attach and port-forward use: Kubernetes' channel protocols.

Over a WebSocket, the first byte of a message is the number of its channel. In the base64 protocols it is the number's
digit, and the rest is base64, all in text messages. Without a subprotocol, messages are those of channel.k8s.io.
`stream_channels` has the same over SPDY. Source: Kubernetes `apimachinery/pkg/util/httpstream/wsstream`, kubelet
`pkg/cri/streaming/remotecommand/websocket.go`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Any, Protocol

import msgspec

from bridgehead.streaming import websocket
from bridgehead.streaming.byte_stream import ByteStream

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
_V4_BASE64 = "v4.base64.channel.k8s.io"

COMMAND_PROTOCOLS = (V5, V4, _V4_BASE64, "channel.k8s.io", "base64.channel.k8s.io")
PORT_PROTOCOLS = (V4, _V4_BASE64)
# The ends of sessions are objects in these protocols, and texts of errors in others.
_WITH_STATUS = (V5, V4, _V4_BASE64)

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255

_BASE64_GROUP = 4  # characters


class Channels(Protocol):
    """The channels of a client."""

    async def begin(self) -> bool:
        """Do what comes before a session. Returns False for a client that leaves or does not do its part."""
        ...

    def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (channel, data) until the client leaves, and (CLOSE, number) for a channel that the client ends.

        Data may be a part of what the client sent at once. Data that is not of the protocol is left out.
        """
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """Send data; wait while the client does not keep up. Does nothing when the client has left."""
        ...

    async def send_status(self, status: dict[str, Any]) -> None:
        """Send the `Status` that ends a session."""
        ...

    async def finish(self) -> None:
        """End the session's channels."""
        ...


def encode_status(protocol: str, status: dict[str, Any]) -> bytes:
    """Return what a protocol sends of a `Status`. Before version 4 it is only the text of an error."""
    if protocol in _WITH_STATUS:
        return msgspec.json.encode(status)
    return b"" if status["status"] == "Success" else str(status["message"]).encode()


class SocketMessages:
    """The messages of a WebSocket in pieces, and messages to it. Answers pings, and the end of the client."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._reader = websocket.Reader()
        self._has_ended = False
        stream.is_end = self._is_end

    async def pieces(self) -> AsyncIterator[websocket.Piece]:
        """Yield what the client sends until it leaves or violates the protocol."""
        while data := await self._stream.read():
            try:
                events = self._reader.feed_untrusted(data)
            except websocket.BadFrame:
                await self.close(websocket.PROTOCOL_ERROR)
                return
            for event in events:
                match event:
                    case websocket.Piece():
                        yield event
                    case websocket.Ping(content):
                        await self.write(websocket.pong_frame(content))
                    case websocket.Close():
                        await self.close(websocket.NORMAL_CLOSURE)
                        return

    async def write(self, frame: bytes) -> None:
        """Send a frame. Does nothing after the end, or when the client has left."""
        if not self._has_ended:
            with contextlib.suppress(ConnectionError):
                await self._stream.write(frame)

    async def close(self, code: int) -> None:
        """End this side. Does nothing the second time."""
        await self.write(websocket.close_frame(code))
        self._has_ended = True

    def _is_end(self, data: bytes) -> bool:
        """Whether the client has sent its `Close`, and waits for the connection to be closed: RFC 6455, 7.1.1."""
        with contextlib.suppress(websocket.BadFrame):
            self._reader.feed_untrusted(data)
        return self._reader.has_ended


class SocketChannels:
    """Channels in a WebSocket. Data for channels that are not `wanted` is dropped (None: all are)."""

    def __init__(self, stream: ByteStream, protocol: str, wanted: Collection[int] | None = None) -> None:
        self._messages = SocketMessages(stream)
        self._protocol = protocol
        self._is_base64 = "base64" in protocol
        self._wanted = wanted

    async def begin(self) -> bool:
        """Before version 5, an empty message on the lowest channel shows the client that the session begins."""
        if self._protocol != V5:
            wanted = (STDOUT,) if self._wanted is None else self._wanted
            await self.send(next(channel for channel in (STDOUT, STDERR, ERROR) if channel in wanted), b"")
        return True

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        channel = -1
        rest = b""  # of base64, less than a group
        async for piece in self._messages.pieces():
            content = piece.content
            if piece.is_first:
                channel, rest = -1, b""
            if channel < 0 and content:
                channel = content[0] - ord("0") if self._is_base64 else content[0]
                content = content[1:]
            if self._is_base64:
                content = rest + content
                whole = len(content) if piece.is_last else len(content) // _BASE64_GROUP * _BASE64_GROUP
                content, rest = content[:whole], content[whole:]
                try:
                    content = base64.b64decode(content, validate=True)
                except binascii.Error:
                    continue
            if channel >= 0 and content and (channel != CLOSE or self._protocol == V5):
                yield channel, content

    async def send(self, channel: int, data: bytes) -> None:
        if self._wanted is not None and channel not in self._wanted:
            return
        if self._is_base64:
            text = f"{channel}{base64.b64encode(data).decode()}"
            await self._messages.write(websocket.message_frame(text.encode(), is_text=True))
        else:
            await self._messages.write(websocket.message_frame(bytes((channel,)) + data))

    async def send_status(self, status: dict[str, Any]) -> None:
        encoded = encode_status(self._protocol, status)
        if encoded:
            await self.send(ERROR, encoded)

    async def finish(self) -> None:
        await self._messages.close(websocket.NORMAL_CLOSURE)
