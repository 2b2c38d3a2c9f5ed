"""HTTP to one API server: connections, TLS, tokens, retries. Used by `api` only.

A request that certainly was not carried out (no connection, or 429 and 503 with Retry-After) is tried again a few
times; one whose fate is unknown only when doing it twice is harmless. One that got no answer in time is not: a server
that hangs is not helped by being asked again. Whoever wants more patience has a work queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import ssl
import tempfile
import time
from asyncio import sslproto
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from .errors import ApiError, ConfigError, Unreachable, error_from_status
from .kubeconfig import ClientConfig

log = logging.getLogger(__name__)

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 5.0
RETRY_DELAYS = (0.1, 0.4)  # after a failed connection
BUSY_RETRIES = 5  # after 429 and 503 with Retry-After
LONGEST_RETRY_AFTER = 30.0
CONCURRENT_REQUESTS = 64  # watches not counted
TOKEN_SECONDS = 60.0  # how long a token file's content is trusted; kubelets renew tokens long before they expire
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})

# asyncio fills a buffer of this size with zeros for each TLS connection and keeps it, a watch's for good. Of its own
# 256 KiB it never uses more than one read of the socket brings.
sslproto.SSLProtocol.max_size = 64 * 1024


class Transport:
    """Sends requests and streams answers; an async context manager."""

    def __init__(self, config: ClientConfig, user_agent: str) -> None:
        self._config = config
        self._user_agent = user_agent
        self._ssl = _ssl_context(config) if config.server.startswith("https:") else None
        self._token = _Token(config)
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)
        self._session: aiohttp.ClientSession | None = None
        self._outage = _Outage(config.server)

    async def __aenter__(self) -> Transport:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=60, ssl=self._ssl or True, socket_factory=_socket_with_keepalive
            ),
            # Answers are JSON on a fast network: packing and unpacking them would cost more than it saves.
            headers={"User-Agent": self._user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
            skip_auto_headers=("Content-Type",),
            read_bufsize=2**18,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(
        self, method: str, path: str, body: bytes | None, params: Mapping[str, str], content_type: str
    ) -> bytes:
        """The answer's body. Raises ApiError, Unreachable."""
        failures = busy = 0
        token_was_renewed = False
        while True:
            try:
                async with self._slots:
                    return await self._send_once(method, path, body, params, content_type)
            except _Refused as refused:
                if refused.retry_after is not None and busy < BUSY_RETRIES:
                    busy += 1
                    await asyncio.sleep(refused.retry_after + random.random() * 0.1)
                    continue
                if refused.error.status == 401 and not token_was_renewed and self._token.renew():
                    token_was_renewed = True
                    continue
                raise refused.error from None
            except _NoAnswer as trouble:
                may_repeat = trouble.nothing_was_sent or method in _IDEMPOTENT
                if failures < len(RETRY_DELAYS) and may_repeat and not trouble.timed_out:
                    await asyncio.sleep(RETRY_DELAYS[failures] * (0.5 + random.random()))
                    failures += 1
                    continue
                self._outage.begin(str(trouble))
                raise Unreachable(f"{self._config.server}: {trouble}") from trouble

    async def _send_once(
        self, method: str, path: str, body: bytes | None, params: Mapping[str, str], content_type: str
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(
            # A list of a large cluster may take longer: what comes all the time is no failure.
            total=None if method == "GET" else REQUEST_SECONDS,
            sock_connect=CONNECT_SECONDS,
            sock_read=REQUEST_SECONDS,
        )
        async with self._answer(method, path, body, params, content_type, timeout) as response:
            return await response.read()

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], silence_seconds: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A GET whose answer is read as it comes. Raises ApiError, Unreachable, also while it is being read."""
        timeout = aiohttp.ClientTimeout(
            total=None, connect=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds
        )
        try:
            async with self._answer("GET", path, None, params, "", timeout) as response:
                yield response.content
        except _Refused as refused:
            if refused.error.status == 401:
                self._token.renew()
            raise refused.error from None
        except _NoAnswer as trouble:
            self._outage.begin(str(trouble))
            raise Unreachable(f"{self._config.server}: {trouble}") from trouble

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        body: bytes | None,
        params: Mapping[str, str],
        content_type: str,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to one request if it is a good one. Raises _Refused, _NoAnswer."""
        if self._session is None:
            raise RuntimeError("the API client is used outside of its `async with`")
        url = URL(f"{self._config.server}{path}{'?' + urlencode(params) if params else ''}", encoded=True)
        headers = {"Content-Type": content_type} if body is not None else {}
        token = self._token.get()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            async with self._session.request(
                method,
                url,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                server_hostname=self._config.tls_server_name,
            ) as response:
                self._outage.end()
                if response.status >= 300:
                    raise _refusal(response.status, response.headers.get("Retry-After"), await response.read())
                yield response
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _NoAnswer(str(error), nothing_was_sent=True) from error
        except TimeoutError as error:
            raise _NoAnswer(str(error) or "no answer in time", timed_out=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _NoAnswer(str(error) or type(error).__name__) from error


class _Refused(Exception):
    def __init__(self, error: ApiError, retry_after: float | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after


class _NoAnswer(Exception):
    def __init__(self, message: str, nothing_was_sent: bool = False, timed_out: bool = False) -> None:
        super().__init__(message)
        self.nothing_was_sent = nothing_was_sent
        self.timed_out = timed_out


def _refusal(code: int, retry_after: str | None, body: bytes) -> _Refused:
    try:
        status = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        status = body.decode(errors="replace")
    waits = code in (429, 503) and retry_after is not None and retry_after.isdigit()
    seconds = min(float(retry_after or 0), LONGEST_RETRY_AFTER) if waits else None
    return _Refused(error_from_status(code, status), seconds)


class _Outage:
    """Says once that the API server is gone, and once that it is back, however many requests notice."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._since: float | None = None

    def begin(self, why: str) -> None:
        if self._since is None:
            self._since = time.monotonic()
            log.warning("%s is unreachable, trying again until it answers: %s", self._server, why)

    def end(self) -> None:
        if self._since is not None:
            log.info("%s answers again after %.1f s", self._server, time.monotonic() - self._since)
            self._since = None


class _Token:
    """The bearer token, read again from its file now and then."""

    def __init__(self, config: ClientConfig) -> None:
        self._value = config.token
        self._file: Path | None = config.token_file
        self._read_at = float("-inf")

    def get(self) -> str | None:
        if self._file is not None and time.monotonic() - self._read_at > TOKEN_SECONDS:
            self.renew()
        return self._value

    def renew(self) -> bool:
        """Whether the file now holds another token than before; a file that can't be read changes nothing."""
        if self._file is None:
            return False
        before = self._value
        with contextlib.suppress(OSError):
            self._value = self._file.read_text().strip()
        self._read_at = time.monotonic()
        return self._value != before


def _ssl_context(config: ClientConfig) -> ssl.SSLContext:
    # `create_default_context` would parse the system's authorities, which costs megabytes in every part.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif config.ca is not None:
            context.load_verify_locations(cadata=config.ca.decode("ascii"))
        else:
            context.load_default_certs()
        if config.client_certificate is not None and config.client_key is not None:
            with tempfile.NamedTemporaryFile(suffix=".pem") as pem:  # OpenSSL reads them from files only
                pem.write(config.client_certificate + b"\n" + config.client_key)
                pem.flush()
                context.load_cert_chain(pem.name)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{config.server}: a certificate or key in the kubeconfig is damaged: {error}") from error
    return context


def _socket_with_keepalive(address: tuple[Any, ...]) -> socket.socket:
    """A peer that vanishes without a word is noticed within half a minute, also on an idle watch."""
    its_socket = socket.socket(*address[:3])
    its_socket.setblocking(False)
    its_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    its_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    its_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    its_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return its_socket
