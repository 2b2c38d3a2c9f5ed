"""HTTP/1.1 heads as Go's servers write them, whatever Python's version: reason phrases, names and order of headers.

Pure: no I/O, no clock, no randomness. Source: Go's net/http (StatusText, response.writeHeader) and net/textproto
(CanonicalMIMEHeaderKey).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_PHRASES = {
    100: "Continue", 101: "Switching Protocols", 102: "Processing", 103: "Early Hints", 200: "OK", 201: "Created",
    202: "Accepted", 203: "Non-Authoritative Information", 204: "No Content", 205: "Reset Content",
    206: "Partial Content", 207: "Multi-Status", 208: "Already Reported", 226: "IM Used", 300: "Multiple Choices",
    301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified", 305: "Use Proxy",
    307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized",
    402: "Payment Required", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable",
    407: "Proxy Authentication Required", 408: "Request Timeout", 409: "Conflict", 410: "Gone", 411: "Length Required",
    412: "Precondition Failed", 413: "Request Entity Too Large", 414: "Request URI Too Long",
    415: "Unsupported Media Type", 416: "Requested Range Not Satisfiable", 417: "Expectation Failed",
    418: "I'm a teapot", 421: "Misdirected Request", 422: "Unprocessable Entity", 423: "Locked",
    424: "Failed Dependency", 425: "Too Early", 426: "Upgrade Required", 428: "Precondition Required",
    429: "Too Many Requests", 431: "Request Header Fields Too Large", 451: "Unavailable For Legal Reasons",
    500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable",
    504: "Gateway Timeout", 505: "HTTP Version Not Supported", 506: "Variant Also Negotiates",
    507: "Insufficient Storage", 508: "Loop Detected", 510: "Not Extended", 511: "Network Authentication Required",
}  # fmt: skip
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIRST_LETTER = re.compile(rb"(?:^|-)[a-z]")
# Headers that the server adds come last; all others by their names.
_LAST = {b"Date": 1, b"Content-Length": 2, b"Connection": 3, b"Transfer-Encoding": 4}

NOT_FOUND = "404 page not found\n"  # http.NotFound


def reason_phrase(status: int) -> str:
    """Return the phrase of a status line."""
    return _PHRASES.get(status) or f"status code {status}"


@lru_cache(maxsize=256)
def canonical_name(name: bytes) -> bytes:
    """Return a header's name with a capital letter after each hyphen: `audit-id` becomes `Audit-Id`."""
    if not _TOKEN.fullmatch(name):
        return name
    return _FIRST_LETTER.sub(lambda match: match[0].upper(), name.lower())


def canonical_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers with Go's names, in Go's order."""
    ordered = sorted([(_order(name), value) for name, value in headers], key=_rank)
    return [(name, value) for (_, name), value in ordered]


def render_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a response's status line and headers, with the empty line behind them."""
    lines = [_status_line(status)]
    lines += [b"%b: %b" % header for header in canonical_headers(headers)]
    return b"\r\n".join((*lines, b"", b""))


def rewrite_head(head: bytes) -> bytes:
    """Return a rendered response's head as Go writes it. A head without a status code stays as it is.

    Each answer of the API server passes here.
    """
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    status = first[9:12]
    if not status.isdigit():
        return head
    parts = [line.partition(b": ") for line in lines]
    return render_head(int(status), [(name, value) for name, _, value in parts])


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b" % (status, reason_phrase(status).encode())


@lru_cache(maxsize=256)
def _order(name: bytes) -> tuple[bytes, bytes]:
    """Return what a header is ordered by, and its canonical name."""
    canonical = canonical_name(name)
    return b"%d%b" % (_LAST.get(canonical, 0), canonical), canonical


def _rank(ordered: tuple[tuple[bytes, bytes], bytes]) -> bytes:
    return ordered[0][0]
