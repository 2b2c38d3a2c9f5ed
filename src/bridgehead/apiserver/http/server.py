"""The HTTPS server around the application: uvicorn, taught what a Kubernetes API server needs of it.

uvicorn does not tell an application whose certificate the client showed, and it waits for open responses when it stops;
watches are open for as long as nobody ends them. Both are mended here, in the edge.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from . import spdy_upgrade
from .socket_protocol import AnySubprotocol
from .unsent import Connection
from .user import InvalidCredentials, user_from_certificate

log = logging.getLogger(__name__)

# Between two requests; kubectl and the informers keep their connections.
_KEEP_ALIVE_SECONDS = 120
_SHUTDOWN_SECONDS = 2
# How long a client may take to say what it wants, and with how many bytes, as in Kubernetes (ReadHeaderTimeout) and Go
# (DefaultMaxHeaderBytes). Both bound what somebody costs who has not yet said who he is.
_HEADER_SECONDS = 32.0
_MAX_HEADER_BYTES = 1024 * 1024


class PeerProtocol(HttpToolsProtocol):
    """Puts the client's user and the connection into the scope's `state`, for HTTP and WebSockets alike.

    A request whose headers do not come, or do not end, is refused.
    """

    header_seconds = _HEADER_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaits_headers = True
        self._header_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        try:
            peer = user_from_certificate(transport.get_extra_info("peercert"))
        except InvalidCredentials as error:
            log.info("%s: %s", transport.get_extra_info("peername"), error)
            transport.abort()
            return
        connection = Connection(transport, self.flow, is_tls=self.scheme == "https")
        self.app_state = {**self.app_state, "peer": peer, "connection": connection}
        self._header_timer = self.loop.call_later(self.header_seconds, self._refuse, b"408 Request Timeout")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        # uvicorn leaves it running after a reset, and all of the connection in memory for as long as it lasts.
        self._unset_keepalive_if_required()

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
        super().on_headers_complete()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _refuse(self, status: bytes) -> None:
        self._stop_timer()
        # One that has sent nothing would take an answer for that to its first request.
        if self._header_bytes and (self.cycle is None or self.cycle.response_complete):
            self.transport.write(b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status)
        self.transport.close()

    def _should_upgrade(self) -> bool:
        return super()._should_upgrade() or self._get_upgrade() == spdy_upgrade.UPGRADE

    def handle_websocket_upgrade(self) -> None:
        if self._get_upgrade() != spdy_upgrade.UPGRADE:
            super().handle_websocket_upgrade()
            return
        self.connections.discard(self)
        path, _, query = self.url.partition(b"?")
        scope = {**self.scope, "raw_path": path, "path": unquote(path.decode("latin-1")), "query_string": query}
        spdy_upgrade.SpdyProtocol(self.app, scope, self.transport, self.tasks)

    def _unsupported_upgrade_warning(self) -> None:
        """Another upgrade is answered as an ordinary request."""


def server_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """A client may show a certificate, and if it does it must be of `client_ca`. Raises OSError, ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class ApiServer(uvicorn.Server):
    """`on_stop` ends what would otherwise keep responses open."""

    def __init__(self, application: Any, context: ssl.SSLContext | None, on_stop: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=PeerProtocol,
                ws=AnySubprotocol,
                ws_max_size=4 * 1024 * 1024,
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                backlog=4096,
                ssl_context_factory=None if context is None else lambda _config, _default: context,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(_is_news)
        self._on_stop = on_stop
        self._stop = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Until `stop`, SIGTERM or SIGINT."""
        await super().serve(sockets)

    def stop(self) -> None:
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        """As uvicorn's, which looks ten times a second whether to stop; here it is told."""
        counter = 0
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
        """Stop at a signal; the process ends with 0 then, and not by the signal itself."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        try:
            for number in signals:
                loop.add_signal_handler(number, self.stop)
        except (ValueError, RuntimeError):
            # Not in the main thread: whoever runs the loop calls `stop`.
            yield
            return
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


_KNOWN = (
    # A WebSocket that was answered with an HTTP response; uvicorn takes it for one that was not answered.
    "ASGI callable returned without completing handshake.",
    # A watch whose client reads nothing; the application has said so when it dropped it.
    "ASGI callable returned without completing response.",
)


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg not in _KNOWN


def open_listeners(addresses: Sequence[str], descriptors: Sequence[int]) -> list[socket.socket]:
    """Listening sockets for `host:port` (port 0 takes a free one) and inherited ones. Raises OSError, ValueError."""
    sockets: list[socket.socket] = []
    try:
        for descriptor in descriptors:
            try:
                sockets.append(socket.socket(fileno=descriptor))
            except OSError as error:
                raise OSError(error.errno, f"descriptor {descriptor} is no socket: {error.strerror}") from error
        for address in addresses:
            host, port = parse_address(address)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                sockets.append(socket.create_server((host, port), family=family, backlog=4096))
            except OSError as error:
                why = (error.strerror or str(error)).partition(" (while")[0]
                raise OSError(error.errno, f"can't listen on {address}: {why}") from error
        for listener in sockets:
            listener.setblocking(False)
            # Connections inherit it. Without, an answer that is written in two parts waits 40 ms for the client's ACK:
            # asyncio sets it by itself only on sockets that were made with an explicit protocol.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def parse_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:6443`, `[::1]:6443`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)
