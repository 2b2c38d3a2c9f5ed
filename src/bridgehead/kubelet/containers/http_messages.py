"""HTTP/1.1 messages of probes and lifecycle hooks, as Go's client writes and reads them. `http_get.py` exchanges them.

Texts are byte strings (`go_urls.py`).

Pure: no I/O, no clock, no randomness. Source: Go 1.25, net/http/request.go and transport.go; Kubernetes,
pkg/probe/http/request.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bridgehead.objects.core import HTTPHeader

from .go_urls import Url, to_bytes_text

Headers = dict[str, list[str]]  # by canonical name

# Go writes these headers itself: from the URL or the first value, or from a body, of which there is none.
_NOT_COPIED = frozenset({"Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer"})
_is_token = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+").fullmatch
_is_value = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*").fullmatch
_match_status = re.compile(r"HTTP/[0-9]\.[0-9] ([0-9]{3})(?: .*)?").fullmatch


class Head(NamedTuple):
    """The head of a response. `headers`: all values by name in lower case."""

    status: int
    headers: Mapping[str, list[str]]

    def first(self, name: str) -> str:
        return next(iter(self.headers.get(name, ())), "")

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.first("transfer-encoding").lower()

    @property
    def content_length(self) -> int | None:
        """Return the length of the body in bytes; None: until the end of the connection."""
        text = self.first("content-length").strip()
        if self.status in (204, 304):
            return 0
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 and not self.is_chunked else None


def canonical_name(name: str) -> str:
    """Return a header's name as Go writes it: `x-tag` becomes X-Tag. A name that is no token stays as it is."""
    if not _is_token(name):
        return name
    return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))


def headers_of_action(given: Iterable[HTTPHeader], user_agent: str) -> Headers:
    """Return the headers of an action, with the defaults of those that every request has."""
    headers: Headers = {}
    for header in given:
        headers.setdefault(canonical_name(to_bytes_text(header.name)), []).append(to_bytes_text(header.value))
    headers.setdefault("User-Agent", [user_agent])
    if not headers.setdefault("Accept", ["*/*"])[0]:
        del headers["Accept"]  # written empty: not sent
    return headers


def render_request(url: Url, host: str, headers: Headers, extra: Iterable[tuple[str, str]]) -> bytes:
    """Return a GET request. `host`: the value of its header Host. `extra`: headers of the client itself.

    Raises ValueError, with Go's text, for headers that would not arrive as they are.
    """
    for name, values in headers.items():
        if not _is_token(name):
            raise ValueError(f'net/http: invalid header field name "{name}"')
        if not all(map(_is_value, values)):
            raise ValueError(f'net/http: invalid header field value for "{name}"')
    if not _is_value(host) or re.search(r"[\s/]", host):
        raise ValueError("http: invalid Host header")
    lines = [f"GET {url.request_target} HTTP/1.1", f"Host: {re.sub(r'%[^]]*(?=])', '', host)}"]
    if agent := headers.get("User-Agent", [""])[0]:
        lines.append(f"User-Agent: {agent.strip()}")
    for name in sorted(headers.keys() - _NOT_COPIED):
        lines += (f"{name}: {value.strip()}" for value in headers[name])
    lines += (f"{name}: {value}" for name, value in extra)
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def headers_of_redirect(headers: Headers, old: Url, new: Url) -> Headers:
    """Return the headers of a request that follows a redirect to the same host. `headers`: those of the first one."""
    if old.scheme == "https" and new.scheme == "http":
        return {name: values for name, values in headers.items() if name != "Referer"}
    return {"Referer": [str(old)], **headers}


def parse_head(lines: Iterable[bytes]) -> Head:
    """Parse the lines of a response's head, without the empty one. Raises ValueError with Go's text."""
    first, *rest = (line.decode("latin-1").rstrip("\r\n") for line in lines)
    status = _match_status(first)
    if status is None:
        shown = first[:80].encode("unicode_escape").decode("ascii")
        raise ValueError(f'net/http: HTTP/1.x transport connection broken: malformed HTTP response "{shown}"')
    headers: Headers = {}
    for line in rest:
        name, _, value = line.partition(":")
        headers.setdefault(name.lower(), []).append(value.strip())
    return Head(int(status[1]), headers)
