"""Targets of connections, as tests write them: `web:80`, `[fd00::1]:80`, `http://web/path`.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}


class Url(NamedTuple):
    """`path` has the query, too; `host` is as a `Host` header has it."""

    is_tls: bool
    hostname: str
    port: int
    host: str
    path: str


def parse_address(target: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`. Raises ValueError."""
    if "//" in target:
        raise ValueError(f"{target!r} is a URL: connect.http(...) sends requests, connect(...) takes HOST:PORT")
    parts = urlsplit(f"//{target}")
    if not parts.hostname or not parts.port or parts.path:
        raise ValueError(f"{target!r} is not HOST:PORT")
    return parts.hostname, parts.port


def parse_url(url: str) -> Url:
    """Return the parts of a URL of HTTP. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is not a URL of http or https")
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    host = parts.netloc.rpartition("@")[2]
    return Url(parts.scheme == "https", parts.hostname, parts.port or _PORTS[parts.scheme], host, path)
