"""Several streams in one WebSocket: Kubernetes' channel protocols, of which exec, attach and port-forward use some.

The first byte of a message is the number of its channel. In the base64 protocols it is the number's digit, and the rest
is base64, all in text messages. Without a subprotocol, messages are those of channel.k8s.io.
Source: Kubernetes `apimachinery/pkg/util/httpstream/wsstream`, kubelet `pkg/cri/streaming/remotecommand/websocket.go`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

_V5 = "v5.channel.k8s.io"
_V4 = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
_BEFORE_V4 = ("channel.k8s.io", "base64.channel.k8s.io")

COMMAND_PROTOCOLS = (_V5, *_V4, *_BEFORE_V4)
PORT_PROTOCOLS = _V4

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


class Channels:
    """The channels of an accepted WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._protocol = socket.ws_protocol or ""
        self._is_base64 = "base64" in self._protocol

    @property
    def is_closed(self) -> bool:
        return self._socket.closed

    @property
    def shows_start(self) -> bool:
        """Whether the protocol begins with an empty message, which shows a client that the session has begun."""
        return self._protocol != _V5

    async def send(self, channel: int, data: bytes) -> None:
        """Send a message. Does nothing when the client has disconnected."""
        with contextlib.suppress(ConnectionError):
            if self._is_base64:
                await self._socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
            else:
                await self._socket.send_bytes(bytes((channel,)) + data)

    async def send_status(self, status: dict[str, Any]) -> None:
        """Send the `Status` that ends a session. Before version 4 it is only the text of an error."""
        if self._protocol in (_V5, *_V4):
            await self.send(ERROR, msgspec.json.encode(status))
        elif status["status"] != "Success":
            await self.send(ERROR, str(status["message"]).encode())

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (channel, data) until the client disconnects. Messages that are not of the protocol are left out."""
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                data = message.data.encode()
            elif message.type is WSMsgType.BINARY:
                data = message.data
            else:
                continue
            if not data:
                continue
            if not self._is_base64:
                yield data[0], data[1:]
                continue
            with contextlib.suppress(binascii.Error):
                yield data[0] - ord("0"), base64.b64decode(data[1:], validate=True)
