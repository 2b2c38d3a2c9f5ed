"""The client's side of SPDY/3.1: frames that only clients send, which the kubelet reads."""

from __future__ import annotations

import struct

from bridgehead.streaming import spdy


class ClientWriter(spdy.Writer):
    def open_stream(self, stream: int, headers: dict[str, str]) -> bytes:
        """Return a SYN_STREAM."""
        text = struct.pack(">I", len(headers))
        for name, value in headers.items():
            text += struct.pack(">I", len(name)) + name.encode() + struct.pack(">I", len(value)) + value.encode()
        body = struct.pack(">IIH", stream, 0, 0) + self._compress(text)
        return struct.pack(">HHI", 0x8003, 1, len(body)) + body
