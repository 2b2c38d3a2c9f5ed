"""The HTTPS server around the application: uvicorn, with what a Kubernetes API server needs in addition.

uvicorn does not pass client certificates to the application, does not bound the time and size of a request's headers,
nor the number of connections, does not support SPDY, and waits for open responses, such as watches, when it stops. The
two subclasses here change this. They use names of uvicorn that its documentation does not promise: pyproject.toml
bounds its version, and tests/unit/test_dependencies.py checks each name.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
import ssl
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from . import spdy_upgrade
from .accepting import Acceptor, Newcomer, Newcomers
from .joined_writes import JoinedWrites
from .request import NEWCOMER, WHOLE_BODY
from .socket_protocol import AnySubprotocol
from .tunnel import TunnelProtocol, asks_for_upgrade
from .unsent import Connection
from .user import InvalidCredentials, User, user_from_certificate

log = logging.getLogger(__name__)

# Between two requests; kubectl and the informers keep their connections.
_KEEP_ALIVE_SECONDS = 120
_SHUTDOWN_SECONDS = 2
# Limits of a request's headers, as in Kubernetes (ReadHeaderTimeout) and Go (DefaultMaxHeaderBytes). They bound what a
# client costs before it is authenticated.
_HEADER_SECONDS = 32.0
_MAX_HEADER_BYTES = 1024 * 1024
_MAX_WEBSOCKET_MESSAGE_BYTES = 4 * 1024 * 1024
_LISTEN_BACKLOG = 4096
# Of a request that asks for an upgrade; such requests have no body, normally.
_MAX_TUNNEL_BODY_BYTES = 64 * 1024


def _takes_none(path: str) -> bool:
    return False


class PeerProtocol(HttpToolsProtocol):
    """One client's connection.

    Puts the client certificate's user and the `Connection` into the scope's `state`, for HTTP and WebSockets, and marks
    there a request whose whole body has arrived.
    `newcomer` is this connection until its client is authenticated. Refuses a request whose headers take too long or
    are too large. Hands an upgrade to SPDY over to `spdy_upgrade`; upgrades of paths for which `takes_upgrade` is true
    go to `tunnel`.
    """

    header_seconds = _HEADER_SECONDS

    def __init__(
        self,
        *args: Any,
        takes_upgrade: Callable[[str], bool] = _takes_none,
        newcomer: Newcomer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._takes_upgrade = takes_upgrade
        self._newcomer = newcomer
        self._awaits_headers = True
        self._header_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None
        self._asks_for_spdy = False
        # The body of a request whose connection goes to a tunnel; None for any other request.
        self._tunnel_body: bytearray | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        try:
            peer = peer_of(transport)
        except InvalidCredentials as error:
            log.info("%s: %s", transport.get_extra_info("peername"), error)
            transport.abort()
            return
        connection = Connection(transport, self.flow, is_tls=self.scheme == "https")
        self.app_state = {**self.app_state, "peer": peer, "connection": connection}
        if self._newcomer is not None:
            self._newcomer.close = transport.abort
            if peer is None:
                self.app_state[NEWCOMER] = self._newcomer
            else:
                self._newcomer.leave()
        self._header_timer = self.loop.call_later(self.header_seconds, self._refuse, b"408 Request Timeout")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._leave_newcomers()
        super().connection_lost(exc)
        # After a reset, uvicorn leaves this timer running, which keeps the whole connection in memory.
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._awaits_headers or self.transport.is_closing():
            return
        self._header_bytes += len(data)
        if self._header_bytes > _MAX_HEADER_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_seconds, self._refuse, b"408 Request Timeout")

    def on_message_begin(self) -> None:
        self._awaits_headers, self._header_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._awaits_headers = False
        self._stop_timer()
        self._tunnel_body, self._asks_for_spdy = None, False
        if self.parser.should_upgrade():
            if asks_for_upgrade(self.headers) and self._takes_upgrade(self._upgraded_scope()["path"]):
                self._tunnel_body = bytearray()
                self.scope["method"] = self.parser.get_method().decode("ascii")
                return
            self._asks_for_spdy = spdy_upgrade.is_requested(self.headers)
        if not self._asks_for_spdy:
            super().on_headers_complete()
            # The answer to a HEAD has no body to wait for.
            if self.cycle is not None and not self.cycle.response_started and self.scope["method"] != "HEAD":
                self.cycle.transport = JoinedWrites(self.transport)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        if self._tunnel_body is not None:
            self._tunnel_body += body
            if len(self._tunnel_body) > _MAX_TUNNEL_BODY_BYTES:
                self._refuse(b"413 Request Entity Too Large")
        elif not self._asks_for_spdy:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._tunnel_body is not None:
            self._leave_newcomers()
            self.connections.discard(self)
            TunnelProtocol(self.app, self._upgraded_scope(), bytes(self._tunnel_body), self.transport, self.tasks)
        elif self._asks_for_spdy:
            self._upgrade_to_spdy()
        else:
            self.scope["state"][WHOLE_BODY] = True
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if self._tunnel_body is None:
            self._leave_newcomers()
            super().handle_websocket_upgrade()

    def _leave_newcomers(self) -> None:
        """Do not count this connection as unauthenticated: it is closed, or another protocol asks for credentials."""
        if self._newcomer is not None:
            self._newcomer.leave()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _refuse(self, status: bytes) -> None:
        self._stop_timer()
        # A client that has sent nothing would take this for the answer to its first request.
        if self._header_bytes and (self.cycle is None or self.cycle.response_complete):
            self.transport.write(b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status)
        self.transport.close()

    def _upgrade_to_spdy(self) -> None:
        self._leave_newcomers()
        self.connections.discard(self)
        spdy_upgrade.SpdyProtocol(self.app, self._upgraded_scope(), self.transport, self.tasks)

    def _upgraded_scope(self) -> dict[str, Any]:
        path, _, query = self.url.partition(b"?")
        return {**self.scope, "raw_path": path, "path": unquote(path.decode("latin-1")), "query_string": query}


def peer_of(transport: asyncio.Transport) -> User | None:
    """Return the user of the connection's certificate, None without one. Raises `InvalidCredentials`."""
    connection = transport.get_extra_info("ssl_object")
    if connection is None:
        return None
    der = connection.getpeercert(binary_form=True)
    if der is None:
        return None
    certificate = connection.getpeercert()
    # OpenSSL verifies the certificate of a session only when the session begins.
    if connection.session_reused and ssl.cert_time_to_seconds(certificate["notAfter"]) < time.time():
        raise InvalidCredentials("the client certificate has expired since its TLS session began")
    return user_from_certificate(certificate, der)


def server_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """TLS settings of the server. A client certificate is optional and must be signed by `client_ca`.

    Raises OSError, ssl.SSLError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class ApiServer(uvicorn.Server):
    """uvicorn's server. `on_stop` ends the watches, which would otherwise keep responses open.

    An application that has a method `takes_upgrade(path)` gets the upgraded connections of these paths (`tunnel`).
    """

    def __init__(self, application: Any, context: ssl.SSLContext | None, on_stop: Callable[[], None]) -> None:
        protocol = functools.partial(PeerProtocol, takes_upgrade=getattr(application, "takes_upgrade", _takes_none))
        super().__init__(
            uvicorn.Config(
                application,
                http=protocol,  # type: ignore[arg-type]  # uvicorn calls it as it calls a class
                ws=AnySubprotocol,
                ws_max_size=_MAX_WEBSOCKET_MESSAGE_BYTES,
                lifespan="off",
                access_log=False,
                # Only the client's own address counts; the audit log reads the headers that name others.
                proxy_headers=False,
                log_config=None,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                backlog=_LISTEN_BACKLOG,
            )
        )
        self._context = context
        logging.getLogger("uvicorn.error").addFilter(is_wanted)
        self._on_stop = on_stop
        self._stop = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `stop` is called, SIGTERM or SIGINT."""
        await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections on listening sockets."""
        newcomers = Newcomers()
        # uvicorn closes these as it closes asyncio's servers.
        self.servers = [Acceptor(one, self._context, self._connect, newcomers) for one in sockets or ()]  # type: ignore[misc]
        self.started = True

    def _connect(self, newcomer: Newcomer) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, newcomer=newcomer
        )
        return protocol

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        """Wait for `stop`, without uvicorn's ten wake-ups per second; once a second the Date header is renewed."""
        counter = 0
        # uvicorn renews the Date header at each tenth tick, which is each call here.
        while not await self.on_tick(counter * 10):
            counter += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop at a signal. Unlike uvicorn's, the process then exits with 0 and does not kill itself by the signal."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        try:
            for number in signals:
                loop.add_signal_handler(number, self.stop)
        except (ValueError, RuntimeError):
            # Not in the main thread: the owner of the loop calls `stop`.
            yield
            return
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


# Messages of uvicorn that mean no trouble here.
UNWANTED_LOG_MESSAGES = (
    # A WebSocket handshake that was answered with an HTTP response. uvicorn counts it as not answered.
    "ASGI callable returned without completing handshake.",
    # A watch whose client reads nothing. The application logged this when it dropped the watch.
    "ASGI callable returned without completing response.",
    # An upgrade to SPDY, which `PeerProtocol` carries out, or to another protocol (h2c), which a server may ignore.
    "Unsupported upgrade request.",
)


def is_wanted(record: logging.LogRecord) -> bool:
    return record.msg not in UNWANTED_LOG_MESSAGES


def open_listeners(addresses: Sequence[str], descriptors: Sequence[int]) -> list[socket.socket]:
    """Open listening sockets for `host:port` (port 0: any free one) and for inherited descriptors.

    Raises OSError, ValueError.
    """
    sockets: list[socket.socket] = []
    try:
        for descriptor in descriptors:
            try:
                sockets.append(socket.socket(fileno=descriptor))
            except OSError as error:
                raise OSError(error.errno, f"descriptor {descriptor} is not a socket: {error.strerror}") from error
        for address in addresses:
            host, port = parse_address(address)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                sockets.append(socket.create_server((host, port), family=family, backlog=_LISTEN_BACKLOG))
            except OSError as error:
                why = (error.strerror or str(error)).partition(" (while")[0]
                raise OSError(error.errno, f"can't listen on {address}: {why}") from error
        for listener in sockets:
            listener.setblocking(False)
            # Connections inherit this option. Without it, an answer that is written in two parts waits 40 ms for the
            # client's ACK; asyncio sets it only on sockets that were created with an explicit protocol.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def parse_address(text: str) -> tuple[str, int]:
    """Parse `127.0.0.1:6443` or `[::1]:6443` into host and port. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)
