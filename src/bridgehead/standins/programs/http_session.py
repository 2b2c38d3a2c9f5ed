"""HTTP/1.1 for the built-in servers: a `Session` that parses requests and calls a handler (a subset of RFC 9112).

Keep-alive, pipelining, HEAD and bodies with Content-Length are supported; chunked requests get 411.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import unquote

from bridgehead.go_http import reason_phrase

from .stream_server import LateAnswer, Peer, fail

HEAD_LIMIT: Final = 64 << 10  # bytes
BODY_LIMIT: Final = 1 << 20  # bytes


class HttpRequest(NamedTuple):
    method: str
    target: str  # as received, with the query
    head: bytes  # request line and header fields, without the empty line
    body: bytes
    peer: Peer

    @property
    def path(self) -> str:
        """The decoded path, without the query."""
        path = self.target.partition("?")[0]
        return unquote(path) if "%" in path else path

    def header(self, name: str) -> str:
        """The value of the first header field of that name, "" without one."""
        wanted = name.lower().encode()
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.lower() == wanted:
                return value.strip().decode("latin-1")
        return ""


class HttpResponse(NamedTuple):
    body: bytes
    status: int = 200
    content_type: str = "text/html"
    headers: tuple[tuple[str, str], ...] = ()


class LateResponse(NamedTuple):
    """A response that takes time: `compute` runs in a process of its own, and the connection ends with it."""

    compute: Callable[[], HttpResponse]


Handler = Callable[[HttpRequest], HttpResponse | LateResponse]
# Called for each answered request: the request, the status, the body's length.
AccessLog = Callable[[HttpRequest, int, int], None]


class _Clock:
    """The Date header field, formatted once a second."""

    second = -1
    text = b""

    @classmethod
    def date(cls) -> bytes:
        now = int(time.time())
        if now != cls.second:
            cls.second = now
            cls.text = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now)).encode()
        return cls.text


def _report(request: HttpRequest, error: Exception) -> HttpResponse:
    """Log that a request could not be handled; return the response."""
    fail(f"{request.method} {request.target}: {error!r}")
    return HttpResponse(b"500 Internal Server Error\n", 500, "text/plain")


class HttpSession:
    __slots__ = ("_access_log", "_buffer", "_handler", "_peer", "_product", "busy", "closing")

    def __init__(self, handler: Handler, peer: Peer, product: str, access_log: AccessLog | None) -> None:
        self._handler = handler
        self._peer = peer
        self._product = product.encode()
        self._access_log = access_log
        self._buffer = b""
        self.closing = False
        self.busy = False

    def receive(self, data: bytes, *, draining: bool) -> bytes | LateAnswer:
        self._buffer = self._buffer + data if self._buffer else data
        answers: list[bytes] = []
        while self._buffer and not self.closing:
            answer = self._answer_one(draining)
            if answer is None:
                break
            if isinstance(answer, LateAnswer):
                return answer.after(b"".join(answers))
            answers.append(answer)
        self.busy = bool(self._buffer)
        return answers[0] if len(answers) == 1 else b"".join(answers)

    def _answer_one(self, draining: bool) -> bytes | LateAnswer | None:
        """Handle the first request in the buffer; None while it is incomplete."""
        line, newline, _ = self._buffer.partition(b"\n")
        parts = line.rstrip(b"\r").split(b" ")
        # At once, as Go's servers do: `echo hello | nc` waits for an answer to this line.
        if newline and (len(parts) != 3 or not parts[2].startswith(b"HTTP/1.")):
            return self._reject(400)
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return self._reject(431) if len(self._buffer) > HEAD_LIMIT else None
        head = self._buffer[:end]
        lowered = head.lower()
        length = 0
        if b"\r\ntransfer-encoding:" in lowered:
            return self._reject(411)
        if b"\r\ncontent-length:" in lowered:
            text = lowered.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0].strip()
            if not text.isdigit():
                return self._reject(400)
            length = int(text)
            if length > BODY_LIMIT:
                return self._reject(413)
        total = end + 4 + length
        if len(self._buffer) < total:
            return None
        body = self._buffer[end + 4 : total]
        self._buffer = self._buffer[total:]
        old = parts[2] == b"HTTP/1.0"
        if b"\r\nconnection:" in lowered:
            options = lowered.partition(b"\r\nconnection:")[2].partition(b"\r\n")[0]
            self.closing = b"close" in options or (old and b"keep-alive" not in options)
        else:
            self.closing = old
        self.closing = self.closing or draining
        method = parts[0].decode("latin-1")
        request = HttpRequest(method, parts[1].decode("latin-1"), head, body, self._peer)
        try:
            response = self._handler(request)
        except Exception as error:  # noqa: BLE001 - one request does not end the server
            response = _report(request, error)
        if isinstance(response, LateResponse):
            self.closing = True
            compute = response.compute
            return LateAnswer(lambda: self._finish_late(request, compute))
        return self._finish(request, response)

    def _finish_late(self, request: HttpRequest, compute: Callable[[], HttpResponse]) -> bytes:
        try:
            response = compute()
        except Exception as error:  # noqa: BLE001 - the client gets an answer
            response = _report(request, error)
        return self._finish(request, response)

    def _finish(self, request: HttpRequest, response: HttpResponse) -> bytes:
        if self._access_log is not None:
            self._access_log(request, response.status, len(response.body))
        return self._encode(response, with_body=request.method != "HEAD")

    def _encode(self, response: HttpResponse, *, with_body: bool) -> bytes:
        extra = (
            "".join(f"{name}: {value}\r\n" for name, value in response.headers).encode() if response.headers else b""
        )
        return b"HTTP/1.1 %d %s\r\nServer: %s\r\nDate: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s%s\r\n%s" % (
            response.status,
            reason_phrase(response.status).encode(),
            self._product,
            _Clock.date(),
            response.content_type.encode(),
            len(response.body),
            extra,
            b"Connection: close\r\n" if self.closing else b"Connection: keep-alive\r\n",
            response.body if with_body else b"",
        )

    def _reject(self, status: int) -> bytes:
        self.closing = True
        self._buffer = b""
        text = f"{status} {reason_phrase(status)}\n".encode()
        return self._encode(HttpResponse(text, status, "text/plain"), with_body=True)
