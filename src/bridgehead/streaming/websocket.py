"""The server's side of the WebSocket protocol: frames, and the key of a handshake.

Pure: no I/O, no clock, no randomness. A message of any length is read piece by piece, so that a client that sends a
whole file in one message costs no more memory than one that sends it in many. No extensions, as in Kubernetes' own
implementation. Source: RFC 6455.
"""

from __future__ import annotations

import base64
import hashlib
import struct

import msgspec

NORMAL_CLOSURE, PROTOCOL_ERROR = 1000, 1002  # RFC 6455, 7.4.1

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_FIN, _RESERVED, _OPCODE = 0x80, 0x70, 0x0F
_MASKED, _LENGTH = 0x80, 0x7F
_LENGTH_16, _LENGTH_64 = 126, 127  # the length follows in so many bits
_MAX_CONTROL_BYTES = 125
_MASK_BYTES = 4
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class BadFrame(Exception):
    """The client violates the protocol."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a message. `is_first` and `is_last` mark its ends."""

    content: bytes
    is_text: bool
    is_first: bool
    is_last: bool


class Ping(msgspec.Struct, frozen=True):
    content: bytes


class Close(msgspec.Struct, frozen=True):
    """The client sends nothing more. `content` is a code in two bytes and a reason, or nothing."""

    content: bytes


Event = Piece | Ping | Close


class _Head(msgspec.Struct, frozen=True):
    opcode: int
    is_final: bool
    length: int
    mask: bytes
    size: int  # in bytes


class Reader:
    """A decoder of a client's bytes, in chunks of any size. Bytes after a `Close` are left out, and so are pongs."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._frame: _Head | None = None  # of a data frame whose payload is being read
        self._missing = 0  # bytes of that payload
        self._is_text = False
        self._in_message = False  # a message has begun, and its last frame has not
        self._is_first = False  # no piece of the message has been returned
        self._has_ended = False

    @property
    def has_ended(self) -> bool:
        """Whether the client has sent `Close`."""
        return self._has_ended

    def feed_untrusted(self, data: bytes) -> list[Event]:
        """Return what the data completes or goes on with. Raises `BadFrame`."""
        if self._has_ended:
            return []
        self._buffer += data
        events: list[Event] = []
        while not self._has_ended:
            if self._frame is not None:
                if not self._buffer and self._missing:
                    break
                events.append(self._take_piece(self._frame))
                continue
            head = _read_head(self._buffer)
            if head is None:
                break
            self._check(head)
            if head.opcode >= _CLOSE:
                if len(self._buffer) < head.size + head.length:
                    break
                event = self._take_control(head)
                if event is not None:
                    events.append(event)
                continue
            del self._buffer[: head.size]
            self._begin(head)
        return events

    def _check(self, head: _Head) -> None:
        if not head.mask:
            raise BadFrame("a frame without a mask")
        if head.opcode >= _CLOSE:
            if head.opcode > _PONG:
                raise BadFrame(f"opcode {head.opcode}")
            if not head.is_final or head.length > _MAX_CONTROL_BYTES:
                raise BadFrame("a control frame that is fragmented or too long")
        elif head.opcode > _BINARY:
            raise BadFrame(f"opcode {head.opcode}")
        elif (head.opcode == _CONTINUATION) != self._in_message:
            raise BadFrame("a fragment out of order")

    def _begin(self, head: _Head) -> None:
        self._frame, self._missing = head, head.length
        if head.opcode != _CONTINUATION:
            self._is_text, self._is_first, self._in_message = head.opcode == _TEXT, True, True

    def _take_piece(self, frame: _Head) -> Piece:
        content = bytes(self._buffer[: self._missing])
        del self._buffer[: len(content)]
        done = frame.length - self._missing
        self._missing -= len(content)
        has_ended = not self._missing
        is_last = has_ended and frame.is_final
        piece = Piece(_unmasked(content, frame.mask, done), self._is_text, self._is_first, is_last)
        self._is_first = False
        if has_ended:
            self._frame, self._in_message = None, not frame.is_final
        return piece

    def _take_control(self, head: _Head) -> Event | None:
        end = head.size + head.length
        content = _unmasked(bytes(self._buffer[head.size : end]), head.mask, 0)
        del self._buffer[:end]
        if head.opcode == _PING:
            return Ping(content)
        if head.opcode == _PONG:
            return None
        self._has_ended = True
        self._buffer.clear()
        return Close(content)


def _read_head(data: bytearray) -> _Head | None:
    """Return the head of the frame at the beginning, None if it is not complete. Raises `BadFrame`."""
    if len(data) < 2:
        return None
    first, second = data[0], data[1]
    if first & _RESERVED:
        raise BadFrame("a frame of an extension")
    length, size = second & _LENGTH, 2
    more = {_LENGTH_16: ">H", _LENGTH_64: ">Q"}.get(length)
    if more is not None:
        size += struct.calcsize(more)
        if len(data) < size:
            return None
        (length,) = struct.unpack_from(more, data, 2)
    mask = b""
    if second & _MASKED:
        mask = bytes(data[size : size + _MASK_BYTES])
        size += _MASK_BYTES
        if len(data) < size:
            return None
    return _Head(first & _OPCODE, bool(first & _FIN), length, mask, size)


def _unmasked(content: bytes, mask: bytes, done: int) -> bytes:
    """Return a part of a payload without its mask; `done` bytes of the payload are before it."""
    shift, size = done % _MASK_BYTES, len(content)
    repeated = (mask[shift:] + mask[:shift]) * (size // _MASK_BYTES + 1)
    # An integer of this size is much faster than a loop over bytes.
    plain = int.from_bytes(content, "little") ^ int.from_bytes(repeated[:size], "little")
    return plain.to_bytes(size, "little")


def accept_key(key: str) -> str:
    """Return the value of Sec-WebSocket-Accept for a client's Sec-WebSocket-Key."""
    # The protocol prescribes SHA-1, which protects nothing here.
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def message_frame(content: bytes, *, is_text: bool = False) -> bytes:
    """Return a message in one frame."""
    return _frame(_TEXT if is_text else _BINARY, content)


def pong_frame(content: bytes) -> bytes:
    return _frame(_PONG, content)


def close_frame(code: int) -> bytes:
    return _frame(_CLOSE, struct.pack(">H", code))


def _frame(opcode: int, content: bytes) -> bytes:
    length = len(content)
    if length < _LENGTH_16:
        head = struct.pack(">BB", _FIN | opcode, length)
    elif length < 1 << 16:
        head = struct.pack(">BBH", _FIN | opcode, _LENGTH_16, length)
    else:
        head = struct.pack(">BBQ", _FIN | opcode, _LENGTH_64, length)
    return head + content
