"""The part of SPDY/3.1 that exec, attach and port-forward need: frames and compressed headers.

Pure: no I/O, no clock, no randomness. kubectl tunnels a SPDY connection through a WebSocket for port-forward
(KEP-4006), and before version 1.31 uses SPDY after an HTTP upgrade for all three. There is no flow control, as in
Kubernetes' own implementation. Source: draft-mbelshe-httpbis-spdy-00.
"""

from __future__ import annotations

import struct
import zlib

import msgspec

MAX_FRAME = 1 << 20  # bytes
# Limits of one block of headers. Kubernetes' clients send three headers; compressed, a few bytes can stand for a
# million.
MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 1024
FLAG_FIN = 0x01

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_CONTROL_BIT = 0x80000000
_CONTROL_VERSION_3 = 0x8003  # the upper 16 bits of a control frame
_LENGTH_MASK = 0xFFFFFF
_STREAM_MASK = 0x7FFFFFFF
_STATUS_CANCEL = 5  # of RST_STREAM
_FRAME_HEADER_BYTES = 8

# The dictionary of the draft's section 2.6.10.1: names and values with their lengths, then common parts of values.
_ENTRIES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(entry)) + entry.replace("_", " ").encode() for entry in _ENTRIES.split())
    + _REST.encode()
)


class BadFrame(Exception):
    """The peer does not speak SPDY/3.1."""


class OpenStream(msgspec.Struct, frozen=True):
    """SYN_STREAM. `ends`: the sender sends nothing more on the stream, here and in Data."""

    stream: int
    headers: dict[str, str]
    ends: bool = False


class Data(msgspec.Struct, frozen=True):
    stream: int
    content: bytes
    ends: bool = False


class Reset(msgspec.Struct, frozen=True):
    stream: int


class Ping(msgspec.Struct, frozen=True):
    number: int


class GoAway(msgspec.Struct, frozen=True):
    pass


Frame = OpenStream | Data | Reset | Ping | GoAway


class Reader:
    """A decoder of a connection's bytes, in chunks of any size. Frames of other types are left out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed_untrusted(self, data: bytes) -> list[Frame]:
        """Return the frames that the data completes. Raises `BadFrame`."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= _FRAME_HEADER_BYTES:
            head, rest = struct.unpack_from(">II", self._buffer)
            length = rest & _LENGTH_MASK
            if length > MAX_FRAME:
                raise BadFrame(f"a frame of {length} bytes")
            end = _FRAME_HEADER_BYTES + length
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[_FRAME_HEADER_BYTES:end])
            del self._buffer[:end]
            frame = self._frame(head, rest >> 24, body)
            if frame is not None:
                frames.append(frame)
        return frames

    def _frame(self, head: int, flags: int, body: bytes) -> Frame | None:
        if not head & _CONTROL_BIT:
            return Data(head, body, bool(flags & FLAG_FIN))
        if head >> 16 != _CONTROL_VERSION_3:
            raise BadFrame(f"version {head >> 16 & 0x7FFF} of SPDY")
        try:
            kind = head & 0xFFFF
            if kind == _SYN_STREAM:
                # The stream, the associated stream, priority and slot; then the headers.
                headers = self._headers(body[10:])
                return OpenStream(struct.unpack_from(">I", body)[0] & _STREAM_MASK, headers, bool(flags & FLAG_FIN))
            if kind == _RST_STREAM:
                return Reset(struct.unpack_from(">I", body)[0] & _STREAM_MASK)
            if kind == _PING:
                return Ping(struct.unpack_from(">I", body)[0])
            if kind == _GOAWAY:
                return GoAway()
            if kind in (_SYN_REPLY, _HEADERS):
                self._headers(body[4:])  # all blocks of a connection are one compressed stream, so each must be read
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise BadFrame(str(error)) from error
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        text = self._inflate.decompress(block, MAX_HEADER_BYTES)
        (count,) = struct.unpack_from(">I", text)
        if count > MAX_HEADERS or self._inflate.unconsumed_tail:
            raise BadFrame("too many headers, or too long ones")
        position, headers = 4, {}
        for _ in range(count):
            name, position = _read_text(text, position)
            value, position = _read_text(text, position)
            headers[name.lower()] = value
        return headers


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", data, position)
    end = position + 4 + length
    if end > len(data):
        raise BadFrame("a header longer than its block")
    return data[position + 4 : end].decode(), end


class Writer:
    """An encoder of frames. Each connection needs its own: the header blocks are one compressed stream."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def accept_stream(self, stream: int) -> bytes:
        """Return a SYN_REPLY without headers."""
        block = self._compress(struct.pack(">I", 0))
        return _control(_SYN_REPLY, struct.pack(">I", stream) + block)

    def _compress(self, text: bytes) -> bytes:
        return self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data_frame(stream: int, content: bytes, *, ends: bool = False) -> bytes:
    return struct.pack(">II", stream, (FLAG_FIN if ends else 0) << 24 | len(content)) + content


def reset_frame(stream: int) -> bytes:
    return _control(_RST_STREAM, struct.pack(">II", stream, _STATUS_CANCEL))


def ping_frame(number: int) -> bytes:
    return _control(_PING, struct.pack(">I", number))


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", _CONTROL_VERSION_3, kind, len(body)) + body
