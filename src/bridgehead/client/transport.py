"""HTTP to one API server: connections and retries. Used by `api` only.

A request that the server has certainly not carried out (no connection, or 429 and 503 with Retry-After) is retried a
few times. A request whose connection broke is retried only if it is idempotent. A request that timed out is not
retried: more requests do not help a server that hangs. Callers that need more retries have a work queue.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn
from urllib.parse import urlencode

import msgspec
from yarl import URL

from bridgehead.backoff import delay_after
from bridgehead.objects.addresses import join_host_port

from .credentials import Credentials, CredentialSource
from .errors import ApiError, Unreachable, error_from_status
from .http_library import aiohttp
from .kubeconfig import ClientConfig
from .metrics import CLIENT_METRICS, NO_ANSWER

log = logging.getLogger(__name__)

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 5.0
CONNECTION_RETRIES = 2  # after a failed connection
FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 0.4
BUSY_RETRIES = 5  # after 429 and 503 with Retry-After
LONGEST_RETRY_AFTER = 30.0
CONCURRENT_REQUESTS = 64  # without watches
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})


class Transport:
    """Sends requests and streams answers; an async context manager."""

    def __init__(self, config: ClientConfig, user_agent: str) -> None:
        self._config = config
        self._host = URL(config.server).authority
        self._user_agent = user_agent
        self._credentials = CredentialSource(config)
        # Pairs, not a map: groups of an impersonated user are headers of one name.
        self._headers = [] if config.impersonation is None else list(config.impersonation.headers())
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)
        self._session: aiohttp.ClientSession | None = None
        self._outage = _Outage(config.server)
        self._is_first_request = True
        self._has_connected = asyncio.Event()  # at least once, or failed to

    async def __aenter__(self) -> Transport:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, socket_factory=_socket_with_keepalive),
            # No compression: on a fast network it costs more than it saves.
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
        """Send a request and return the body of the answer. Raises ApiError, CredentialsFailed, Unreachable."""
        failures = busy = 0
        has_renewed = False
        while True:
            try:
                async with self._slots:
                    return await self._send_once(method, path, body, params, content_type)
            except _Rejected as rejected:
                if rejected.retry_after is not None and busy < BUSY_RETRIES:
                    busy += 1
                    await asyncio.sleep(rejected.retry_after + random.random() * 0.1)
                    continue
                if rejected.error.status == 401 and not has_renewed:
                    has_renewed = True
                    if await self._credentials.renew(rejected.credentials):
                        continue
                raise rejected.error from None
            except _NoAnswer as failure:
                may_repeat = failure.nothing_was_sent or method in _IDEMPOTENT
                if failures < CONNECTION_RETRIES and may_repeat and not failure.timed_out:
                    failures += 1
                    delay = delay_after(failures, FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, factor=4)
                    await asyncio.sleep(delay * (0.5 + random.random()))
                    continue
                self._outage.begin(str(failure))
                raise Unreachable(f"{self._config.server}: {failure}") from failure

    async def _send_once(
        self, method: str, path: str, body: bytes | None, params: Mapping[str, str], content_type: str
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(
            # A list of a large cluster may take longer than this, as long as data keeps arriving.
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
        """Send a GET and return the stream of its answer.

        Raises ApiError, CredentialsFailed, and Unreachable, also during the block.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, connect=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds
        )
        try:
            async with self._answer("GET", path, None, params, "", timeout) as response:
                try:
                    yield response.content
                finally:
                    _abort(response)
        except _Rejected as rejected:
            if rejected.error.status == 401:
                await self._credentials.renew(rejected.credentials)
            raise rejected.error from None
        except _NoAnswer as failure:
            self._outage.begin(str(failure))
            raise Unreachable(f"{self._config.server}: {failure}") from failure

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
        """Send one request and return its answer if it is a success. Raises _Rejected, _NoAnswer, CredentialsFailed."""
        session = self._opened()
        credentials = await self._credentials.get()
        await self._wait_for_first()
        headers = self._headers_with(credentials)
        if body is not None:
            headers.append(("Content-Type", content_type))
        began, code = time.perf_counter(), NO_ANSWER
        try:
            async with session.request(
                method,
                self._url(path, list(params.items())),
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                ssl=credentials.context or True,
                server_hostname=self._config.tls_server_name,
                proxy=self._config.proxy_url,
            ) as response:
                code = str(response.status)
                self._record(method, code, began)
                self._has_connected.set()
                self._outage.end()
                if response.status >= 300:
                    retry_after = response.headers.get("Retry-After")
                    raise _rejection(response.status, retry_after, await response.read(), credentials)
                yield response
        except aiohttp.ClientHttpProxyError as error:
            # The text of aiohttp's error has the URL of the proxy, with its password.
            raise _NoAnswer(f"the proxy answers {error.status} {error.message}", nothing_was_sent=True) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error
        finally:
            if code == NO_ANSWER:
                self._record(method, code, began)
            self._has_connected.set()

    @contextlib.asynccontextmanager
    async def open_socket(
        self, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket with the first of the subprotocols that the server has.

        Raises ApiError, CredentialsFailed, and Unreachable, also during the block.
        """
        session = self._opened()
        has_renewed = False
        while True:
            credentials = await self._credentials.get()
            await self._wait_for_first()
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    socket_ = await session.ws_connect(
                        self._url(path, params),
                        protocols=protocols,
                        headers=self._headers_with(credentials),
                        ssl=credentials.context or True,
                        server_hostname=self._config.tls_server_name,
                        proxy=self._config.proxy_url,
                    )
                break
            except aiohttp.WSServerHandshakeError as error:
                if error.status == 401 and not has_renewed:
                    has_renewed = True
                    if await self._credentials.renew(credentials):
                        continue
                await self._explain(path, params, error)
            except aiohttp.ClientHttpProxyError as error:
                raise Unreachable(f"{self._config.server}: the proxy answers {error.status} {error.message}") from None
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise Unreachable(f"{self._config.server}: {_no_answer(error)}") from error
            finally:
                self._has_connected.set()
        try:
            yield socket_
        except aiohttp.ClientError as error:
            raise Unreachable(f"{self._config.server}: {_no_answer(error)}") from error
        finally:
            if not socket_.closed:
                _abort_socket(socket_)
                await asyncio.sleep(0)  # the loop closes it in its next turn, which may otherwise not come

    async def _explain(
        self, path: str, params: Sequence[tuple[str, str]], error: aiohttp.WSServerHandshakeError
    ) -> NoReturn:
        """Raise the error of a refused WebSocket, whose body aiohttp drops: another request finds it out.

        Without an upgrade, the API server's own reasons come, such as missing rights; with one, those of the kubelet.
        """
        if 400 < error.status < 500:
            await self.send("GET", f"{path}?{urlencode(params)}", None, {}, "application/json")
        else:
            await self._upgrade_again(path, params)
        raise error_from_status(error.status, f"no WebSocket: {error.message}")

    async def _upgrade_again(self, path: str, params: Sequence[tuple[str, str]]) -> None:
        """Ask for a WebSocket in a plain request, and raise the error of its answer; a success is dropped."""
        session = self._opened()
        credentials = await self._credentials.get()
        upgrade = (
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", base64.b64encode(os.urandom(16)).decode()),
            ("Sec-WebSocket-Protocol", "v4.channel.k8s.io"),
        )
        try:
            async with session.get(
                self._url(path, params),
                headers=[*self._headers_with(credentials), *upgrade],
                timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
                allow_redirects=False,
                ssl=credentials.context or True,
                server_hostname=self._config.tls_server_name,
                proxy=self._config.proxy_url,
            ) as response:
                if response.status < 300:
                    _abort(response)
                    return
                rejected = _rejection(response.status, None, await response.read(), credentials)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return
        raise rejected.error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the API client is used outside of its `async with`")
        return self._session

    def _url(self, path: str, params: Sequence[tuple[str, str]]) -> URL:
        return URL(f"{self._config.server}{path}{'?' + urlencode(params) if params else ''}", encoded=True)

    def _headers_with(self, credentials: Credentials) -> list[tuple[str, str]]:
        headers = self._headers.copy()
        if credentials.token:
            headers.append(("Authorization", f"Bearer {credentials.token}"))
        return headers

    def _record(self, method: str, code: str, began: float) -> None:
        CLIENT_METRICS.record_request(method, self._host, code, time.perf_counter() - began)

    async def _wait_for_first(self) -> None:
        """Let the client's first request go alone, because all later connections resume its TLS session."""
        if self._is_first_request:
            self._is_first_request = False
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._has_connected.wait()


def _abort(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an answer that has not ended, at once: TLS would wait for the server's farewell."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _abort_socket(opened: aiohttp.ClientWebSocketResponse) -> None:
    """Close the connection of a WebSocket at once, for the reason of `_abort`."""
    transport = opened.get_extra_info("socket_transport")
    if transport is not None:
        transport.abort()


class _Rejected(Exception):
    def __init__(self, error: ApiError, retry_after: float | None, credentials: Credentials) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after
        self.credentials = credentials


class _NoAnswer(Exception):
    def __init__(self, message: str, nothing_was_sent: bool = False, timed_out: bool = False) -> None:
        super().__init__(message)
        self.nothing_was_sent = nothing_was_sent
        self.timed_out = timed_out


def _no_answer(error: Exception) -> _NoAnswer:
    match error:
        case aiohttp.ClientConnectorError():  # its own text has the TLS context in it
            address, why = join_host_port(error.host, error.port or 0), error.os_error
            reason = why.strerror or str(why)
            if reason.startswith("Connect call failed") and why.errno:  # asyncio's text instead of the system's
                reason = os.strerror(why.errno)
            return _NoAnswer(f"cannot connect to {address}: {reason}", nothing_was_sent=True)
        case aiohttp.ConnectionTimeoutError():
            return _NoAnswer(str(error), nothing_was_sent=True)
        case TimeoutError():
            return _NoAnswer(str(error) or "no answer in time", timed_out=True)
    return _NoAnswer(str(error) or type(error).__name__)


def _rejection(code: int, retry_after: str | None, body: bytes, credentials: Credentials) -> _Rejected:
    try:
        status = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        status = body.decode(errors="replace")
    may_retry = code in (429, 503) and retry_after is not None and retry_after.isdigit()
    seconds = min(float(retry_after or 0), LONGEST_RETRY_AFTER) if may_retry else None
    return _Rejected(error_from_status(code, status), seconds, credentials)


class _Outage:
    """Logs the beginning and the end of an outage of the API server once each, however many requests fail."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._since: float | None = None

    def begin(self, why: str) -> None:
        if self._since is None:
            self._since = time.monotonic()
            log.warning("%s is unreachable, trying again: %s", self._server, why)

    def end(self) -> None:
        if self._since is not None:
            log.info("%s answers again after %.1f s", self._server, time.monotonic() - self._since)
            self._since = None


def _socket_with_keepalive(address: tuple[Any, ...]) -> socket.socket:
    """Open a socket that detects a vanished peer within half a minute, also on an idle watch."""
    sock = socket.socket(*address[:3])
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return sock
