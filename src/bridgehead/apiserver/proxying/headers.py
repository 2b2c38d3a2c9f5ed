"""Headers of proxied requests and their responses: which are passed on, and which are added.

Pure: no I/O, no clock, no randomness.
Source: Go's `httputil.ReverseProxy`, Kubernetes apimachinery `pkg/util/proxy`, apiserver `filters/authentication.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]
HeaderPairs = Iterable[tuple[bytes, bytes]]

# Headers about one connection (RFC 9110, 7.6.1), which a proxy does not pass on.
_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"proxy-connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
_FRAMING = frozenset((b"content-length", b"transfer-encoding", b"trailer", b"expect"))
# The credentials are this server's: the server behind must not get them.
_CREDENTIALS = frozenset((b"authorization", b"x-remote-user", b"x-remote-group", b"x-remote-uid"))
_CREDENTIAL_PREFIXES = (b"impersonate-", b"x-remote-extra-")
# This server's rules for other origins apply, not those of the server behind it.
_CORS = frozenset(
    (
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
    )
)
_BEARER_PROTOCOL = re.compile(rb"base64url\.bearer\.authorization\.k8s\.io\.[^,\s]*\s*,?\s*")
_LINE_ENDS = re.compile(rb"[\r\n\0]")
_NOT_IN_KEYS = re.compile(r"[^!#$&'*+\-.^_`|~0-9A-Za-z]")


def request_headers(headers: HeaderPairs, client: str) -> Headers:
    """Return the headers for the server behind. `client` is the client's address, for X-Forwarded-For."""
    pairs = list(headers)
    dropped = _HOP_BY_HOP | _connection_options(pairs) | {b"expect", b"x-forwarded-uri"}
    kept = [(name, value) for name, value in pairs if name not in dropped and not _is_credential(name)]
    if any(name == b"te" and b"trailers" in _tokens(value) for name, value in pairs):
        kept.append((b"te", b"trailers"))
    return _with_forwarded_for(kept, client)


def upgrade_headers(headers: HeaderPairs, client: str) -> Headers:
    """Return the headers of a request for an upgrade, which is passed on without a body.

    Those about the connection are passed on, but none that announces a body: the target would wait for it, or take
    what the client sends next for another request of this server.
    """
    kept = [(name, value) for name, value in headers if name not in _FRAMING and not _is_credential(name)]
    kept = [
        (name, _BEARER_PROTOCOL.sub(b"", value).rstrip(b", ") if name == b"sec-websocket-protocol" else value)
        for name, value in kept
    ]
    return _with_forwarded_for([pair for pair in kept if pair[1] or pair[0] != b"sec-websocket-protocol"], client)


def response_headers(headers: HeaderPairs, *, keeps_length: bool) -> Headers:
    """Return the headers for the client, without Content-Type. `keeps_length`: the body has the same length."""
    pairs = [(name.lower(), value) for name, value in headers]
    dropped = _HOP_BY_HOP | _CORS | _connection_options(pairs) | {b"content-type", b"date", b"audit-id"}
    if not keeps_length:
        dropped |= {b"content-length"}
    return [(name, value) for name, value in pairs if name not in dropped]


def with_location(headers: Headers, location: str) -> Headers:
    """Return the headers with another Location."""
    encoded = location.encode("utf-8", "surrogateescape")
    return [(name, encoded if name == b"location" else value) for name, value in headers]


def is_valid(headers: HeaderPairs) -> bool:
    """Whether no value would end its line."""
    return not any(_LINE_ENDS.search(value) for _, value in headers)


def escape_extra_key(key: str) -> str:
    """Escape a key of a user's `extra` for the name of a header, as client-go's `headerKeyEscape` does."""
    return _NOT_IN_KEYS.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), key)


def _is_credential(name: bytes) -> bool:
    return name in _CREDENTIALS or name.startswith(_CREDENTIAL_PREFIXES)


def _connection_options(headers: HeaderPairs) -> set[bytes]:
    return {token for name, value in headers if name == b"connection" for token in _tokens(value)}


def _tokens(value: bytes) -> set[bytes]:
    return {token.strip().lower() for token in value.split(b",")}


def _with_forwarded_for(headers: Headers, client: str) -> Headers:
    before = [value for name, value in headers if name == b"x-forwarded-for"]
    kept = [pair for pair in headers if pair[0] != b"x-forwarded-for"]
    if not client:
        return headers
    return [*kept, (b"x-forwarded-for", b", ".join((*before, client.encode())))]
