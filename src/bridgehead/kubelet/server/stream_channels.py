"""The channels of exec and attach over SPDY, each of which is a stream that the client opens.

Called by the kubelet's server for clients without WebSockets: kubectl before 1.31, or with
KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false. Source: kubelet `pkg/cri/streaming/remotecommand/httpstream.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from bridgehead.streaming import spdy
from bridgehead.streaming.byte_stream import ByteStream

from .channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, V4, V5, encode_status

# The versions that clients offer, and what they are called here. Versions before the fourth differ only in the form of
# the status.
PROTOCOLS = {
    V5: V5,
    V4: V4,
    "v3.channel.k8s.io": "channel.k8s.io",
    "v2.channel.k8s.io": "channel.k8s.io",
    "channel.k8s.io": "channel.k8s.io",
}
WITHOUT_RESIZE = ("v2.channel.k8s.io", "channel.k8s.io")
_MAX_EARLY_BYTES = 1024 * 1024
_MESSAGE_BYTES = 128  # of memory for each message, however short
_OPEN_SECONDS = 30.0  # for the client to open its streams; DefaultStreamCreationTimeout

_CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}


class StreamChannels:
    """Channels over SPDY. `expected` are the channels for which the client opens streams."""

    def __init__(self, stream: ByteStream, protocol: str, expected: Iterable[int]) -> None:
        self._stream = stream
        self._protocol = protocol
        self._expected = frozenset(expected)
        self._reader = spdy.Reader()
        self._writer = spdy.Writer()
        self._channels: dict[int, int] = {}  # by stream
        self._streams: dict[int, int] = {}  # by channel
        self._early: list[tuple[int, bytes]] = []  # messages that came before all streams were open

    async def begin(self) -> bool:
        """Wait until the client has opened its streams."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_SECONDS):
                while not self._expected <= self._streams.keys():
                    received = await self._receive()
                    if received is None:
                        return False
                    self._early += received
                    size += sum(_MESSAGE_BYTES + len(data) for _, data in received)
                    if size > _MAX_EARLY_BYTES:
                        return False
                return True
        return False

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        received: list[tuple[int, bytes]] | None
        received, self._early = self._early, []
        while received is not None:
            for message in received:
                yield message
            received = await self._receive()

    async def _receive(self) -> list[tuple[int, bytes]] | None:
        """Return the next messages, None when the client has left or violates the protocol."""
        data = await self._stream.read()
        try:
            frames = self._reader.feed_untrusted(data)
        except spdy.BadFrame:
            self._stream.abort()
            return None
        if not data:
            return None
        messages: list[tuple[int, bytes]] = []
        for frame in frames:
            match frame:
                case spdy.OpenStream():
                    await self._open(frame)
                case spdy.Ping():
                    await self._write(spdy.ping_frame(frame.number))
                case spdy.Data():
                    channel = self._channels.get(frame.stream)
                    if channel is not None and frame.content:
                        messages.append((channel, frame.content))
                    if channel is not None and frame.ends:
                        messages.append((CLOSE, bytes((channel,))))
                case spdy.Reset() if frame.stream in self._channels:
                    messages.append((CLOSE, bytes((self._channels[frame.stream],))))
        return messages

    async def _open(self, frame: spdy.OpenStream) -> None:
        channel = _CHANNELS.get(frame.headers.get("streamtype", ""))
        if channel is None or channel in self._streams:
            await self._write(spdy.reset_frame(frame.stream))
            return
        self._channels[frame.stream] = channel
        self._streams[channel] = frame.stream
        await self._write(self._writer.accept_stream(frame.stream))

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None and data:
            await self._write(spdy.data_frame(stream, data))

    async def send_status(self, status: dict[str, Any]) -> None:
        await self.send(ERROR, encode_status(self._protocol, status))

    async def finish(self) -> None:
        for channel, stream in self._streams.items():
            if channel not in (STDIN, RESIZE):
                await self._write(spdy.data_frame(stream, b"", ends=True))

    async def _write(self, frame: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._stream.write(frame)
