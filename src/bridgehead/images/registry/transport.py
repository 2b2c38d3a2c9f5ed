"""HTTP to registries: connections, redirects, retries, and the bounds of where requests may go.

Credentials stay with the server for which they are: a redirect to another one is followed without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from bridgehead import __version__
from bridgehead.images.errors import BadImage, PullFailed, Unreachable
from bridgehead.tls_certificates import load_certificate, verifying_context
from bridgehead.tls_failures import is_plain_answer

from . import hosts_toml, retries
from .hosts_toml import Endpoint

_CONNECT_SECONDS: Final = 5.0
_SILENCE_SECONDS: Final = 30.0  # without a byte, a connection counts as broken
_ANSWER_SECONDS: Final = 60.0  # until the headers of an answer are complete
_UNREACHABLE_SECONDS: Final = 30.0  # as long, a server that could not be reached is not tried again
_MAX_REDIRECTS: Final = 10
_CHUNK: Final = 1 << 20  # bytes
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Transport:
    """Use as an async context manager. `is_offline`: requests go to this machine's loopback only."""

    def __init__(self, *, is_offline: bool = False) -> None:
        self.is_offline = is_offline
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[tuple[bool, str, tuple[str, ...]], ssl.SSLContext] = {}
        self._unreachable: dict[str, tuple[float, str]] = {}  # host -> (until, reason)

    async def __aenter__(self) -> Transport:
        self._session = aiohttp.ClientSession(
            # The number of connections has no limit: a wait for one of them would count as a server that does not
            # answer.
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # a layer's digest is that of the bytes that are sent
            headers={"User-Agent": f"bridgehead/{__version__}", "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._session is not None:
            await self._session.close()

    def check_reachable(self, url: str) -> None:
        """Raises `Unreachable` for a server that is out of bounds, or that did not answer a moment ago."""
        host = urlsplit(url).hostname or ""
        if self.is_offline and not hosts_toml.is_loopback(host):
            raise Unreachable(hosts_toml.describe_offline(host))
        until, reason = self._unreachable.get(origin(url), (0.0, ""))
        if time.monotonic() < until:
            raise Unreachable(reason)

    async def settle(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with the scheme that its server speaks, if `may_be_plain`. Raises `ImageError`.

        A server that does not answer keeps its scheme; requests to it name the reason.
        """
        if not endpoint.may_be_plain:
            return endpoint
        self.check_reachable(endpoint.url)
        parts = urlsplit(endpoint.url)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=self._context(endpoint))
        except ssl.SSLError as error:
            if is_plain_answer(error):
                return msgspec.structs.replace(endpoint, url=parts._replace(scheme="http").geturl())
        except (OSError, TimeoutError):
            pass
        else:
            writer.transport.abort()
        return endpoint

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, endpoint: Endpoint, headers: Mapping[str, str], *, body: bytes | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, again where that may help; redirects are followed. Yields an answer of whatever status.

        Raises `Unreachable` when no connection could be made, `PullFailed` for other failures of the connection.
        """
        failures = 0
        while True:
            try:
                response = await self._follow(method, url, endpoint, headers, body)
            except (aiohttp.ClientConnectionError, TimeoutError, aiohttp.ClientPayloadError) as error:
                failures += 1
                is_silent = isinstance(error, TimeoutError)
                delay = retries.delay_seconds(failures, "", time.time(), is_silent=is_silent)
                if delay is None:
                    raise PullFailed(_failed(method, url, error)) from error
            else:
                failures += 1
                delay = None
                if retries.is_retried(response.status):
                    delay = retries.delay_seconds(failures, response.headers.get("Retry-After", ""), time.time())
                if delay is None:
                    try:
                        yield response
                    finally:
                        response.release()
                    return
                response.release()
            await asyncio.sleep(delay)

    async def _follow(
        self, method: str, url: str, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        for _ in range(_MAX_REDIRECTS):
            response = await self._send(method, url, endpoint, headers, body)
            target = response.headers.get("Location", "")
            if response.status not in _REDIRECTS or not target:
                return response
            response.release()
            before, url = url, urljoin(url, target)
            if urlsplit(url).scheme not in ("http", "https"):
                raise PullFailed(f'{method} "{shown_url(before)}": redirected to {shown_url(url)[:200]!r}')
            if origin(url) != origin(before):
                if body is not None:  # a refresh token is in it
                    raise PullFailed(f'{method} "{shown_url(before)}": redirected to another server')
                own = {name.lower() for name, _ in endpoint.headers}
                headers = {
                    name: value
                    for name, value in headers.items()
                    if name.lower() != "authorization" and name.lower() not in own
                }
                endpoint = Endpoint(url=url)
        raise PullFailed(f'{method} "{shown_url(url)}": stopped after {_MAX_REDIRECTS} redirects')

    async def _send(
        self, method: str, url: str, endpoint: Endpoint, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        self.check_reachable(url)
        if self._session is None:
            raise RuntimeError("the transport is not open")
        host = urlsplit(url).hostname or ""
        proxy = None if hosts_toml.is_loopback(host) else _proxy_for(url, host)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._session.request(
                    method,
                    URL(url, encoded=True),
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                    proxy=proxy,
                    ssl=self._context(endpoint) if url.startswith("https:") else True,
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
                raise PullFailed(_failed(method, url, error)) from error
            reason = _failed(method, url, error)
            self._unreachable[origin(url)] = (time.monotonic() + _UNREACHABLE_SECONDS, reason)
            raise Unreachable(reason) from error
        except aiohttp.InvalidURL as error:
            raise PullFailed(f"invalid URL {shown_url(url)[:200]!r}") from error

    def _context(self, endpoint: Endpoint) -> ssl.SSLContext:
        key = (endpoint.skip_verify, endpoint.ca, endpoint.clients)
        context = self._contexts.get(key)
        if context is None:
            try:
                context = _unverified_context() if endpoint.skip_verify else verifying_context()
                if endpoint.ca:
                    context.load_verify_locations(cadata=endpoint.ca)
                for pem in endpoint.clients:
                    load_certificate(context, pem.encode())
            except ssl.SSLError as error:
                raise PullFailed(f"the certificates for {endpoint.url} cannot be used: {error}") from error
            self._contexts[key] = context
        return context


def _unverified_context() -> ssl.SSLContext:
    """Return a context that accepts every server. Reading the system's certificates would take 20 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _proxy_for(url: str, host: str) -> str | None:
    """Return the proxy of the user's environment (https_proxy, no_proxy)."""
    if urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(urlsplit(url).scheme)


def origin(url: str) -> str:
    """Return a URL's server: its scheme, host and port, in one form."""
    parts = urlsplit(url)
    server = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{server.removesuffix(_DEFAULT_PORTS.get(parts.scheme, ''))}"


def shown_url(url: str) -> str:
    """Return the URL for a message, which Events show: a redirect's query can be a signature that grants access, and a
    password can be before its host."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _failed(method: str, url: str, error: BaseException) -> str:
    return f'failed to do request: {method} "{shown_url(url)}": {describe(error)}'


async def read_bounded(response: aiohttp.ClientResponse, bound: int) -> bytes:
    """Return the whole body. Raises `BadImage` when it has more than `bound` bytes, `PullFailed` when it trickles."""
    content = bytearray()
    pace = retries.Pace(time.monotonic())
    async for data in response.content.iter_chunked(_CHUNK):
        pace.count(len(data), time.monotonic())
        content += data
        if len(content) > bound:
            raise BadImage(f"the registry's answer has more than {bound} bytes")
    return bytes(content)


def describe(error: BaseException) -> str:
    """Describe a failure of a connection as Go does, which users know from containerd."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: {_name_failure(error)}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"tls: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        reason = (
            os.strerror(number).lower() if number is not None and number in errno.errorcode else str(error.os_error)
        )
        return f"dial tcp {error.host}:{error.port}: connect: {reason}"
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _name_failure(error: aiohttp.ClientConnectorDNSError) -> str:
    return "no such host" if error.os_error.errno in (socket.EAI_NONAME, None) else str(error.os_error.strerror)
