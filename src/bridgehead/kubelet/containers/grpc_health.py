"""The health check of gRPC as bytes: one call of `grpc.health.v1.Health/Check` on one HTTP/2 connection.

Headers are sent as literals, and those of the answer are not read: the message has the result.
Pure: no I/O, no clock, no randomness.
Source: RFC 9113 (frames), RFC 7541 6.2.2 (literal headers), "gRPC over HTTP2", "GRPC Health Checking Protocol".
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.protobuf_wire import field, varint

# Kinds of frames, and flags.
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_ACK, _END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_STREAM = 1
_FRAME_HEAD = 9
_MAX_FRAME = 16_384  # a peer sends larger ones only to those who allow them
_MAX_MESSAGE = 64
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class BadPacket(Exception):
    """The server's answer is not one of the health service."""


def health_request(authority: str, service: str, user_agent: str) -> bytes:
    """Return the client's bytes: preface, settings, and the request for the health of a service, "" for the server."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": authority,
        "content-type": "application/grpc",
        "te": "trailers",
        "user-agent": user_agent,
    }
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
    name = service.encode()
    message = field(1, name) if name else b""
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return b"".join(
        (
            _PREFACE,
            _frame(_SETTINGS, 0, 0, b""),
            _frame(_HEADERS, _END_HEADERS, _STREAM, block),
            _frame(_DATA, _END_STREAM, _STREAM, body),
        )
    )


class HealthAnswer:
    """The server's answer as far as it has arrived."""

    def __init__(self) -> None:
        self._unread = b""
        self._body = b""
        self.is_complete = False

    def feed_untrusted(self, data: bytes) -> bytes:
        """Take bytes of the server; return what is to be sent to it. Raises `BadPacket`."""
        self._unread += data
        replies = b""
        for kind, flags, payload in self._frames():
            if kind == _SETTINGS and not flags & _ACK:
                replies += _frame(_SETTINGS, _ACK, 0, b"")
            elif kind == _PING and not flags & _ACK:
                replies += _frame(_PING, _ACK, 0, payload)
            elif kind in (_RST_STREAM, _GOAWAY):
                raise BadPacket("the server ended the call")
            elif kind == _DATA:
                self._body += payload[1 : len(payload) - payload[0]] if flags & _PADDED and payload else payload
            if len(self._body) > _MAX_MESSAGE:
                raise BadPacket("the answer is too long")
            if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                self.is_complete = True
        return replies

    def status(self) -> str:
        """Return the status that the server answered. Raises `BadPacket` if there is no answer."""
        body = self._body
        length = int.from_bytes(body[1:5], "big")
        if len(body) < 5 or body[0] or len(body) != 5 + length:
            raise BadPacket("the server sent no response of grpc.health.v1.Health")
        message = body[5:]
        if not message:
            return _STATUSES[0]
        if len(message) != 2 or message[0] != 0x08 or message[1] >= len(_STATUSES):
            raise BadPacket("the response is not a HealthCheckResponse")
        return _STATUSES[message[1]]

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield kind, flags and payload of the frames that have arrived whole."""
        while len(self._unread) >= _FRAME_HEAD:
            length = int.from_bytes(self._unread[:3], "big")
            if length > _MAX_FRAME:
                raise BadPacket("a frame is too long, or the server does not speak HTTP/2")
            end = _FRAME_HEAD + length
            if len(self._unread) < end:
                return
            kind, flags, payload = self._unread[3], self._unread[4], self._unread[_FRAME_HEAD:end]
            self._unread = self._unread[end:]
            yield kind, flags, payload


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _text(value: str) -> bytes:
    """Encode a string literal without Huffman coding: its length with a prefix of 7 bits (RFC 7541 5.1), its bytes.

    HPACK encodes the rest of a long number as protobuf does.
    """
    data = value.encode()
    return (bytes((len(data),)) if len(data) < 127 else b"\x7f" + varint(len(data) - 127)) + data
