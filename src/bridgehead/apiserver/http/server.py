"""The HTTPS server around the application: uvicorn, with what a Kubernetes API server needs in addition.

uvicorn does not bound the number of connections, and waits for open responses, such as watches, when it stops. The
subclass here changes this, `peer_protocol` what a connection does. Both use names of uvicorn that its documentation
does not promise: pyproject.toml bounds its version, and tests/unit/test_dependencies.py checks each name.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from bridgehead.streaming.socket_stream import keep_alive
from bridgehead.tls_offers import DEFAULT_OFFER, TlsOffer

from .accepting import Acceptor, Newcomer, Newcomers
from .client_authorities import ClientAuthorities, ServerContext
from .peer_protocol import PeerProtocol, takes_any, takes_none
from .uvicorn_library import Config, Server

# Time between two requests; kubectl and the informers keep their connections.
_KEEP_ALIVE_SECONDS = 120
_SHUTDOWN_SECONDS = 2
_MAX_WEBSOCKET_MESSAGE_BYTES = 4 * 1024 * 1024
_LISTEN_BACKLOG = 4096


def server_context(
    certificate: Path,
    key: Path,
    client_ca: Path | None,
    front_proxy_ca: Path | None = None,
    offer: TlsOffer = DEFAULT_OFFER,
) -> ssl.SSLContext:
    """TLS settings of the server. A client certificate is optional and must be signed by one of the CAs.

    Raises OSError, ValueError (of which ssl.SSLError is one).
    """
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    offer.apply(context)
    context.load_cert_chain(certificate, key)
    for path in (client_ca, front_proxy_ca):
        if path is not None:
            context.load_verify_locations(path)
            context.verify_mode = ssl.CERT_OPTIONAL
    if front_proxy_ca is not None:
        context.authorities = ClientAuthorities.read(client_ca, front_proxy_ca)
    return context


class ApiServer(Server):
    """uvicorn's server. `on_stop` ends the watches, which would otherwise keep responses open.

    `before_stop` is awaited first, while requests are still served.

    An application that has a method `takes_upgrade(path)` gets the upgraded connections of these paths (`tunnel`). An
    application that has a method `takes_socket(path, query)` gets other upgrades to WebSocket only where it is true.
    """

    def __init__(
        self,
        application: Any,
        context: ssl.SSLContext | None,
        on_stop: Callable[[], None],
        before_stop: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        protocol = functools.partial(
            PeerProtocol,
            takes_upgrade=getattr(application, "takes_upgrade", takes_none),
            takes_socket=getattr(application, "takes_socket", takes_any),
        )
        super().__init__(
            Config(
                application,
                http=protocol,  # type: ignore[arg-type]  # uvicorn calls it as it calls a class
                ws=_open_socket,  # type: ignore[arg-type]  # as above
                ws_max_size=_MAX_WEBSOCKET_MESSAGE_BYTES,
                # A client of a stream only reads. A client that reads slowly is not gone.
                ws_ping_interval=None,
                ws_per_message_deflate=False,
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
        self._acceptors: list[Acceptor] = []
        logging.getLogger("uvicorn.error").addFilter(is_wanted)
        self._on_stop = on_stop
        self._before_stop = before_stop
        self._stop = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `stop` is called, SIGTERM or SIGINT."""
        await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections on listening sockets."""
        newcomers = Newcomers()
        self._acceptors = [Acceptor(one, self._context, self._connect, newcomers) for one in sockets or ()]
        self.servers = self._acceptors  # type: ignore[assignment]  # uvicorn closes these as it closes asyncio's servers
        self.started = True

    def change_tls(self, context: ssl.SSLContext, *, verifies_anew: bool) -> None:
        """Set the TLS settings of the next connections.

        `verifies_anew`: connections whose clients were identified by a certificate end after their current request.
        """
        self._context = context
        for acceptor in self._acceptors:
            acceptor.context = context
        if verifies_anew:
            for connection in list(self.server_state.connections):
                if isinstance(connection, PeerProtocol) and connection.has_certificate:
                    connection.shutdown()

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
        if self._before_stop is not None:
            await self._before_stop()
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
            # The server is not in the main thread: the owner of the loop calls `stop`.
            yield
            return
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


def _open_socket(**arguments: Any) -> asyncio.Protocol:
    """Return a WebSocket's protocol. Imports it with the first one: 25 ms and 1 MiB, and most clients open none."""
    from .socket_protocol import AnySubprotocol

    return AnySubprotocol(**arguments)


# Messages of uvicorn that mean no trouble here.
UNWANTED_LOG_MESSAGES = (
    # A WebSocket handshake that was answered with an HTTP response. uvicorn counts it as not answered.
    "ASGI callable returned without completing handshake.",
    # A watch whose client reads nothing. The application logged this when it dropped the watch.
    "ASGI callable returned without completing response.",
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
            keep_alive(listener)
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
