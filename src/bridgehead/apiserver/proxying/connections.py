"""Connections to the servers behind the API server: HTTP sessions, TLS settings, and the texts of their errors.

The texts are those of Go's `net` package, which users of Kubernetes know and search for.
"""

from __future__ import annotations

import errno
import ssl
from functools import cached_property
from typing import TYPE_CHECKING

from .targets import Target

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS = 30.0
_MAX_HEADER_BYTES = 64 * 1024

_TEXTS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset by peer",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
    errno.ETIMEDOUT: "connection timed out",
    errno.EPIPE: "broken pipe",
}


class Connections:
    """HTTP sessions with servers that prove no identity: pods and the pods of Services. The owner calls `close`.

    A connection serves one request: an address may belong to another pod at the next one.
    """

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    @cached_property
    def unverified(self) -> ssl.SSLContext:
        """TLS without verification: a pod is reached by its address, for which nobody issues certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session()
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def open_session() -> aiohttp.ClientSession:
    """Open a session that passes requests and bodies on as they are."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),  # cookies belong to the clients
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        auto_decompress=False,
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )


def describe(error: BaseException, target: Target) -> str:
    """Return the text of a failed connection or request as Go's `net` package describes it."""
    import aiohttp

    dialing = f"dial tcp {target.authority}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error.message}"
    cause = getattr(error, "os_error", None) or error.__cause__ or error
    for found in (cause, error):
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"tls: failed to verify certificate: x509: {found.verify_message}"
        if isinstance(found, ssl.SSLError):
            return (
                "tls: first record does not look like a TLS handshake" if _is_plain(found) else f"tls: {found.reason}"
            )
    if isinstance(error, TimeoutError):
        return f"{dialing}: i/o timeout"
    number = getattr(cause, "errno", None)
    if number == errno.ECONNRESET and not isinstance(error, aiohttp.ClientConnectorError):
        return f"read tcp {target.authority}: read: {_TEXTS[number]}"
    if number in _TEXTS:
        return f"{dialing}: connect: {_TEXTS[number]}"
    return f"{dialing}: {cause}" if str(cause) else f"{dialing}: {type(cause).__name__}"


def _is_plain(error: ssl.SSLError) -> bool:
    """Whether the other side answered a TLS handshake with something else."""
    return error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
