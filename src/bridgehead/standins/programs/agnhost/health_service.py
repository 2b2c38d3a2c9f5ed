"""agnhost's grpc-health-checking: a server of gRPC's health service, whose answer HTTP requests change.

Source: RFC 9113 (frames), RFC 7541 (headers), "gRPC over HTTP2", "GRPC Health Checking Protocol".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from bridgehead.standins.programs.announcing import announce
from bridgehead.standins.programs.http_session import HttpRequest, HttpResponse
from bridgehead.standins.programs.stream_server import Peer, StreamServer
from bridgehead.standins.standin import Launch

from .flags import CommandLine, describe
from .responses import not_found, sessions, text

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEAD = 9
_MAX_FRAME = 16_384
# Kinds of frames, and flags.
_DATA, _HEADERS, _SETTINGS, _PING = 0, 1, 4, 6
_ACK, _END_STREAM, _END_HEADERS = 0x1, 0x1, 0x4
_SERVING, _NOT_SERVING = 1, 2
_NOT_FOUND = "5"  # of gRPC: no such service


def serve(launch: Launch, line: CommandLine) -> int:
    port, http_port = line.port("port", 5000), line.port("http-port", 8080)
    health = Health(line.flags.get("service", ""), float(line.flags.get("delay-unhealthy-sec", "-1")), time.monotonic)
    server = StreamServer()
    server.listen(port, lambda peer: HealthSession(health, peer))
    server.listen(http_port, sessions(health.control))
    used = ("port", "http-port", "service", "delay-unhealthy-sec")
    announce(launch.setup, describe(line, used, (f"{port}/TCP", f"{http_port}/TCP")))
    return server.serve(launch.started)


class Health:
    """The health of one service, which ends after `delay` seconds unless that is negative."""

    def __init__(self, service: str, delay: float, clock: Callable[[], float]) -> None:
        self.service = service
        self._clock = clock
        self._healthy_until = clock() + delay if delay >= 0 else float("inf")

    def status(self) -> int:
        return _SERVING if self._clock() < self._healthy_until else _NOT_SERVING

    def control(self, request: HttpRequest) -> HttpResponse:
        if request.path not in ("/make-serving", "/make-not-serving"):
            return not_found()
        self._healthy_until = float("inf") if request.path == "/make-serving" else self._clock()
        return text("")


class HealthSession:
    """One HTTP/2 connection. Headers of requests are not read: each call is taken for Health/Check."""

    busy = False

    def __init__(self, health: Health, peer: Peer) -> None:
        self.closing = False
        self._health = health
        self._unread = b""
        self._has_preface = False

    def receive(self, data: bytes, *, draining: bool) -> bytes:
        self._unread += data
        answer = b""
        if not self._has_preface:
            if len(self._unread) < len(_PREFACE):
                return b""
            self.closing = not self._unread.startswith(_PREFACE)
            self._has_preface, self._unread = True, self._unread[len(_PREFACE) :]
            answer = _frame(_SETTINGS, 0, 0, b"")
        if self.closing:
            return b""
        return answer + b"".join(self._answer(*frame) for frame in self._frames())

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield kind, flags, stream and payload of the frames that have arrived whole."""
        while len(self._unread) >= _FRAME_HEAD:
            length = int.from_bytes(self._unread[:3], "big")
            if length > _MAX_FRAME:
                self.closing = True
                return
            frame, rest = self._unread[: _FRAME_HEAD + length], self._unread[_FRAME_HEAD + length :]
            if len(frame) < _FRAME_HEAD + length:
                return
            self._unread = rest
            yield frame[3], frame[4], int.from_bytes(frame[5:9], "big"), frame[_FRAME_HEAD:]

    def _answer(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        if kind == _SETTINGS and not flags & _ACK:
            return _frame(_SETTINGS, _ACK, 0, b"")
        if kind == _PING and not flags & _ACK:
            return _frame(_PING, _ACK, 0, payload)
        if kind != _DATA or not flags & _END_STREAM:
            return b""
        # A message after gRPC's head of five bytes: the service's name as field 1, or nothing.
        service = payload[7:].decode("utf-8", "replace")
        begin = b"\x88" + _literal("content-type", "application/grpc")  # \x88: ":status: 200" of the static table
        if service != self._health.service:
            block = begin + _literal("grpc-status", _NOT_FOUND) + _literal("grpc-message", "unknown service")
            return _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, block)
        message = bytes((0x08, self._health.status()))
        return (
            _frame(_HEADERS, _END_HEADERS, stream, begin)
            + _frame(_DATA, 0, stream, b"\0" + len(message).to_bytes(4, "big") + message)
            + _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _literal("grpc-status", "0"))
        )


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _literal(name: str, value: str) -> bytes:
    """A header field without indexing and Huffman coding; both texts are shorter than 127 bytes."""
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
