"""The part of SPDY/3.1 that exec, attach and port-forward need: frames in and out, headers compressed. Pure.

kubectl tunnels its SPDY connection through a WebSocket for port-forward (KEP-4006), and before version 1.31 speaks SPDY
after an HTTP upgrade for all three. Flow control is not there, as it is not in Kubernetes' own implementation.
Source: draft-mbelshe-httpbis-spdy-00.
"""

from __future__ import annotations

import struct
import zlib

import msgspec

MAX_FRAME = 1 << 20
FIN = 0x01

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_VERSION = 0x8003

# The dictionary of the draft's section 2.6.10.1: names and values with their lengths, then what is often seen inside.
_WORDS = (
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
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()) + _REST.encode()
)


class BadFrame(Exception):
    """The peer does not speak SPDY/3.1."""


class OpenStream(msgspec.Struct, frozen=True):
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
    """Turns the bytes of a connection into frames, however they are cut; frames of no interest are left out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed_untrusted(self, data: bytes) -> list[Frame]:
        """Raises `BadFrame`."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= 8:
            head, rest = struct.unpack_from(">II", self._buffer)
            length = rest & 0xFFFFFF
            if length > MAX_FRAME:
                raise BadFrame(f"a frame of {length} bytes")
            if len(self._buffer) < 8 + length:
                break
            body = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            frame = self._frame(head, rest >> 24, body)
            if frame is not None:
                frames.append(frame)
        return frames

    def _frame(self, head: int, flags: int, body: bytes) -> Frame | None:
        if not head & 0x80000000:
            return Data(head, body, bool(flags & FIN))
        if head >> 16 != _VERSION:
            raise BadFrame(f"version {head >> 16 & 0x7FFF} of SPDY")
        try:
            match head & 0xFFFF:
                case 1:
                    headers = self._headers(body[10:])
                    return OpenStream(struct.unpack_from(">I", body)[0] & 0x7FFFFFFF, headers, bool(flags & FIN))
                case 3:
                    return Reset(struct.unpack_from(">I", body)[0] & 0x7FFFFFFF)
                case 6:
                    return Ping(struct.unpack_from(">I", body)[0])
                case 7:
                    return GoAway()
                case 2 | 8:
                    self._headers(body[4:])  # the compression has a memory: every block must be read
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise BadFrame(str(error)) from error
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        text = self._inflate.decompress(block, MAX_FRAME)
        (count,) = struct.unpack_from(">I", text)
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
    """Makes the frames to send. One for each connection: compression has a memory."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def accept_stream(self, stream: int) -> bytes:
        """SYN_REPLY without headers."""
        block = self._compress(struct.pack(">I", 0))
        return _control(_SYN_REPLY, struct.pack(">I", stream) + block)

    def open_stream(self, stream: int, headers: dict[str, str]) -> bytes:
        """SYN_STREAM, as a client sends it."""
        text = struct.pack(">I", len(headers))
        for name, value in headers.items():
            text += struct.pack(">I", len(name)) + name.encode() + struct.pack(">I", len(value)) + value.encode()
        return _control(_SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + self._compress(text))

    def _compress(self, text: bytes) -> bytes:
        return self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data_frame(stream: int, content: bytes, *, ends: bool = False) -> bytes:
    return struct.pack(">II", stream, (FIN if ends else 0) << 24 | len(content)) + content


def reset_frame(stream: int) -> bytes:
    return _control(_RST_STREAM, struct.pack(">II", stream, 5))  # 5: cancel


def ping_frame(number: int) -> bytes:
    return _control(_PING, struct.pack(">I", number))


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", _VERSION, kind, len(body)) + body
