"""HTTP to the API server, or to one of several: connections and retries. Used by `api` only.

A request that the server has certainly not carried out (no connection, or 429 and 503 with Retry-After) is retried a
few times. A request whose connection broke is retried only if it is idempotent. A request that timed out is not
retried: more requests do not help a server that hangs. Callers that need more retries have a work queue.

With several servers, the retry goes to another one at once, and later requests, too. `server_probe` finds a server that
is silent; what is open there ends like a connection that broke.
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
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from types import TracebackType
from typing import Any, NoReturn
from urllib.parse import urlencode

import msgspec
from yarl import URL

from bridgehead.backoff import delay_after
from bridgehead.objects.addresses import join_host_port

from .credentials import Credentials, CredentialSource
from .errors import ApiError, ClientError, Unreachable, error_from_status
from .http_library import aiohttp
from .kubeconfig import ClientConfig
from .metrics import CLIENT_METRICS, NO_ANSWER
from .open_requests import OpenRequest, OpenRequests, abort, connection_trace
from .request_limit import Lanes
from .server_choice import ServerChoice
from .server_probe import ServerProbe

log = logging.getLogger(__name__)

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 5.0
CONNECT_SECONDS_BESIDE_OTHERS = 0.9  # while another server may answer
CONNECTION_RETRIES = 2  # after a failed connection
FIRST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 0.4
BUSY_RETRIES = 5  # after 429 and 503 with Retry-After
LONGEST_RETRY_AFTER = 30.0
_TURNS_OF_AN_END = 20  # of the event loop, in which a connection that has ended is closed; TLS takes a few
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})


class Transport:
    """Sends requests and streams answers; an async context manager."""

    def __init__(self, config: ClientConfig, user_agent: str) -> None:
        self._config = config
        self._choice = ServerChoice(config.servers, _client_name(config, user_agent))
        self._requests = OpenRequests()
        self._probing: asyncio.Task[None] | None = None
        self._hosts = {server: URL(server).authority for server in config.servers}
        self._user_agent = user_agent
        self._credentials = CredentialSource(config)
        # Pairs, not a map: groups of an impersonated user are headers of one name.
        self._headers = [] if config.impersonation is None else list(config.impersonation.headers())
        self._lanes = Lanes()
        self._session: aiohttp.ClientSession | None = None
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()  # of all connections
        self._outage = _Outage(", ".join(config.servers))
        self._is_first_request = True
        self._has_connected = asyncio.Event()  # at least once, or failed to

    async def __aenter__(self) -> Transport:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, socket_factory=self._open_socket),
            # No compression: on a fast network it costs more than it saves.
            headers={"User-Agent": self._user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
            skip_auto_headers=("Content-Type",),
            read_bufsize=2**18,
            cookie_jar=aiohttp.DummyCookieJar(),
            # A request is abandoned only for another server.
            trace_configs=[connection_trace()] if len(self._choice.servers) > 1 else None,
        )
        if len(self._choice.servers) > 1:
            probe = ServerProbe(self._choice, self._requests, self._is_ready, self._leave)
            self._probing = asyncio.create_task(probe.run())
        return self

    async def __aexit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])
            self._probing = None
        if self._session is not None:
            await self._session.close()
            self._session = None
            await self._break_connections()

    def _open_socket(self, address: tuple[Any, ...]) -> socket.socket:
        sock = _socket_with_keepalive(address)
        self._sockets.add(sock)
        return sock

    async def _break_connections(self) -> None:
        """End the connections that the session closes no more.

        Those of abandoned requests would wait for the server's end of TLS for up to half a minute, or longer than the
        event loop runs.
        """
        for sock in self._sockets:
            with contextlib.suppress(OSError):  # it is closed, or was never connected
                sock.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS_OF_AN_END):
            if all(sock.fileno() == -1 for sock in self._sockets):
                break
            await asyncio.sleep(0)

    async def send(
        self, method: str, path: str, body: bytes | None, params: Mapping[str, str], content_type: str
    ) -> bytes:
        """Send a request and return the body of the answer. Raises ApiError, CredentialsFailed, Unreachable."""
        failures = busy = moves = 0
        has_renewed = False
        while True:
            try:
                return await self._send_in_lane(method, path, body, params, content_type)
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
                has_other = self._on_failure(failure)
                if (failure.nothing_was_sent or method in _IDEMPOTENT) and not failure.timed_out:
                    if has_other and moves < len(self._choice.servers):
                        moves += 1
                        continue
                    if failures < CONNECTION_RETRIES:
                        failures += 1
                        delay = delay_after(failures, FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, factor=4)
                        await asyncio.sleep(delay * (0.5 + random.random()))
                        continue
                raise self._unreachable(failure, has_other) from failure

    async def _send_in_lane(
        self, method: str, path: str, body: bytes | None, params: Mapping[str, str], content_type: str
    ) -> bytes:
        await self._lanes.enter()
        began, seconds = time.monotonic(), None
        try:
            answer = await self._send_once(method, path, body, params, content_type)
            seconds = time.monotonic() - began
        finally:
            self._lanes.leave(method, seconds)
        return answer

    async def _send_once(
        self, method: str, path: str, body: bytes | None, params: Mapping[str, str], content_type: str
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(
            # A list of a large cluster may take longer than this, as long as data keeps arriving.
            total=None if method == "GET" else REQUEST_SECONDS,
            sock_connect=self._connect_seconds(),
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
            total=None, connect=REQUEST_SECONDS, sock_connect=self._connect_seconds(), sock_read=silence_seconds
        )
        try:
            async with self._answer("GET", path, None, params, "", timeout) as response:
                try:
                    yield response.content
                finally:
                    abort(response)
        except _Rejected as rejected:
            if rejected.error.status == 401:
                await self._credentials.renew(rejected.credentials)
            raise rejected.error from None
        except _NoAnswer as failure:
            raise self._unreachable(failure, self._on_failure(failure)) from failure

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
        server = self._choice.current
        headers = self._headers_with(credentials)
        if body is not None:
            headers.append(("Content-Type", content_type))
        began, code = time.perf_counter(), NO_ANSWER
        with self._requests.during(server) as opened:
            sending = session.request(
                method,
                _url(server, path, list(params.items())),
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                ssl=credentials.context or True,
                server_hostname=self._config.tls_server_name,
                proxy=self._config.proxy_url,
                trace_request_ctx=opened,
            )
            # A client of one server has no probe that would abandon a request.
            answering = sending if self._probing is None else _until_abandoned(sending, opened)
            try:
                async with answering as response:
                    code = str(response.status)
                    self._record(server, method, code, began)
                    self._has_connected.set()
                    self._choice.on_answer(server)
                    self._outage.end()
                    if response.status >= 300:
                        retry_after = response.headers.get("Retry-After")
                        raise _rejection(response.status, retry_after, await response.read(), credentials)
                    yield response
            except aiohttp.ClientHttpProxyError as error:
                # The text of aiohttp's error has the URL of the proxy, with its password.
                message = f"the proxy answers {error.status} {error.message}"
                raise _NoAnswer(server, message, nothing_was_sent=True) from None
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if opened.is_abandoned:
                    raise _NoAnswer(server, _SILENT, nothing_was_sent=not opened.has_connection) from error
                raise _no_answer(server, error) from error
            finally:
                if code == NO_ANSWER:
                    self._record(server, method, code, began)
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
            server = self._choice.current
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    socket_ = await session.ws_connect(
                        _url(server, path, params),
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
                raise Unreachable(f"{server}: the proxy answers {error.status} {error.message}") from None
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                failure = _no_answer(server, error)
                if self._on_failure(failure) and failure.nothing_was_sent:
                    continue
                raise Unreachable(f"{server}: {failure}") from error
            finally:
                self._has_connected.set()
        try:
            yield socket_
        except aiohttp.ClientError as error:
            raise Unreachable(f"{server}: {_no_answer(server, error)}") from error
        finally:
            if not socket_.closed:
                _abort_socket(socket_)

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
                _url(self._choice.current, path, params),
                headers=[*self._headers_with(credentials), *upgrade],
                timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
                allow_redirects=False,
                ssl=credentials.context or True,
                server_hostname=self._config.tls_server_name,
                proxy=self._config.proxy_url,
            ) as response:
                if response.status < 300:
                    abort(response)
                    return
                rejected = _rejection(response.status, None, await response.read(), credentials)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return
        raise rejected.error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the API client is used outside of its `async with`")
        return self._session

    async def _is_ready(self, server: str, seconds: float) -> bool:
        """Whether a server answers /readyz within so many seconds, and not that it cannot serve."""
        session = self._opened()
        with contextlib.suppress(aiohttp.ClientError, ClientError, TimeoutError, OSError):
            credentials = await self._credentials.get()
            async with session.get(
                f"{server}/readyz",
                headers=self._headers_with(credentials),
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
                ssl=credentials.context or True,
                server_hostname=self._config.tls_server_name,
                proxy=self._config.proxy_url,
            ) as response:
                await response.read()
                return response.status < 500  # a client that may not read this path gets 401 or 403
        return False

    def _connect_seconds(self) -> float:
        return CONNECT_SECONDS_BESIDE_OTHERS if self._choice.has_other(time.monotonic()) else CONNECT_SECONDS

    def _on_failure(self, failure: _NoAnswer) -> bool:
        """Record that a server did not answer a request. Return whether another one may."""
        before = self._choice.current
        has_other = self._choice.on_failure(failure.server, time.monotonic(), timed_out=failure.timed_out)
        if has_other and self._choice.current != before:
            log.info("%s: %s; continuing at %s", failure.server, failure, self._choice.current)
        return has_other

    def _leave(self, server: str) -> None:
        """End what is open at a server that is silent or not ready."""
        log.info("%s: %s; continuing at %s", server, _SILENT, self._choice.current)
        self._requests.abandon(server)

    def _unreachable(self, failure: _NoAnswer, has_other: bool) -> Unreachable:
        """Return the error of a request that was not answered."""
        if not has_other:
            self._outage.begin(str(failure))
        return Unreachable(f"{failure.server}: {failure}")

    def _headers_with(self, credentials: Credentials) -> list[tuple[str, str]]:
        headers = self._headers.copy()
        if credentials.token:
            headers.append(("Authorization", f"Bearer {credentials.token}"))
        return headers

    def _record(self, server: str, method: str, code: str, began: float) -> None:
        CLIENT_METRICS.record_request(method, self._hosts[server], code, time.perf_counter() - began)

    async def _wait_for_first(self) -> None:
        """Let the client's first request go alone, because all later connections resume its TLS session."""
        if self._is_first_request:
            self._is_first_request = False
            return
        if self._has_connected.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._has_connected.wait()


@contextlib.asynccontextmanager
async def _until_abandoned(
    sending: contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse], opened: OpenRequest
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Wait for the answer of a request, and close it at the end of the block. Raises TimeoutError when abandoned."""
    async with contextlib.AsyncExitStack() as stack:
        # The limit ends with the wait: the block, which may be a generator's, can end in another task.
        async with asyncio.timeout(None) as limit:
            opened.limit = limit
            response = await stack.enter_async_context(sending)
        opened.response = response
        yield response


def _url(server: str, path: str, params: Sequence[tuple[str, str]]) -> URL:
    return URL(f"{server}{path}{'?' + urlencode(params) if params else ''}", encoded=True)


def _client_name(config: ClientConfig, user_agent: str) -> str:
    """Return a name that differs between the clients of a cluster and is the same after a restart."""
    certificate = sha256(config.client_certificate or b"").hexdigest()
    return f"{user_agent} {socket.gethostname()} {certificate}"


def _abort_socket(opened: aiohttp.ClientWebSocketResponse) -> None:
    """Close the connection of a WebSocket at once, for the reason of `abort`."""
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
    def __init__(self, server: str, message: str, nothing_was_sent: bool = False, timed_out: bool = False) -> None:
        super().__init__(message)
        self.server = server
        self.nothing_was_sent = nothing_was_sent
        self.timed_out = timed_out


_SILENT = "no answer, or not ready, while another server is"


def _no_answer(server: str, error: Exception) -> _NoAnswer:
    match error:
        case aiohttp.ClientConnectorError():  # its own text has the TLS context in it
            address, why = join_host_port(error.host, error.port or 0), error.os_error
            reason = why.strerror or str(why)
            if reason.startswith("Connect call failed") and why.errno:  # asyncio's text instead of the system's
                reason = os.strerror(why.errno)
            return _NoAnswer(server, f"cannot connect to {address}: {reason}", nothing_was_sent=True)
        case aiohttp.ConnectionTimeoutError():
            return _NoAnswer(server, str(error), nothing_was_sent=True)
        case TimeoutError():
            return _NoAnswer(server, str(error) or "no answer in time", timed_out=True)
    return _NoAnswer(server, str(error) or type(error).__name__)


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
