"""The first lines of requests to an HTTP proxy (RFC 9110, section 9.3.6; RFC 9112, section 3.2).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

MOST_BYTES: Final = 64 * 1024  # of a request's head

_HTTP_PORT: Final = 80
# For the proxy only, or replaced: the connection serves one request.
_DROPPED: Final = (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization")


class BadRequest(Exception):
    """A request that no proxy serves. The text is the reason."""


class Request(NamedTuple):
    """The target of a request to a proxy. `forwarded` is the head for the server; "" for CONNECT."""

    host: str
    port: int
    forwarded: bytes


def parse_request(head: bytes) -> Request:
    """Parse a head, which ends with an empty line. Raises BadRequest."""
    line, _, fields = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
    except ValueError:
        raise BadRequest("not a request of HTTP/1.1") from None
    if not version.startswith("HTTP/1."):
        raise BadRequest("not a request of HTTP/1.1")
    if method == "CONNECT":
        return Request(*_split(f"//{target}", None), b"")
    if not target.startswith("http://"):
        raise BadRequest("this is a proxy: the request needs a whole URL, http://HOST/PATH")
    host, port = _split(target, _HTTP_PORT)
    url = urlsplit(target)
    path = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
    kept = [field for field in fields.split(b"\r\n") if field and field.partition(b":")[0].lower() not in _DROPPED]
    lines = (f"{method} {path} {version}".encode("ascii"), *kept, b"Connection: close", b"", b"")
    return Request(host, port, b"\r\n".join(lines))


def refusal(status: int, phrase: str, reason: str) -> bytes:
    """Return an answer with a reason in one line."""
    body = f"bridgehead: {reason}\n".encode()
    head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode("ascii") + body


def _split(url: str, default_port: int | None) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or default_port
    except ValueError:
        host = port = None
    if not host or not port:
        raise BadRequest("the target is not HOST:PORT")
    return host, port
