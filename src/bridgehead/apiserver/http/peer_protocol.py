"""A client's connection: uvicorn's, with certificates, limits and upgrades.

uvicorn does not pass client certificates to the application, does not bound the time and size of a request's headers,
nor the number of requests that a client sends ahead, and does not support SPDY. The subclass here uses names of uvicorn
that its documentation does not promise; see `server`.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from bridgehead.go_http import reason_phrase, render_head

from . import spdy_upgrade
from .accepting import Newcomer
from .client_authorities import ServerContext
from .joined_writes import JoinedWrites
from .request import FRONT_PROXY, NEWCOMER, WHOLE_BODY, date_header
from .tunnel import TunnelProtocol, asks_for_upgrade
from .unsent import Connection
from .user import InvalidCredentials, User, common_name, user_from_certificate
from .uvicorn_library import HttpToolsProtocol, RequestResponseCycle

# Limits of a request's headers, as in Kubernetes (ReadHeaderTimeout) and Go (DefaultMaxHeaderBytes). They bound what a
# client costs before it is authenticated.
_HEADER_SECONDS = 32.0
MAX_HEADER_BYTES = 1024 * 1024
# A client may send requests before it has the answers to earlier ones. uvicorn parses all of them at once, and each
# costs 6 KiB. So bytes are parsed in pieces that end with a request's head, and none while a parsed request waits. A
# piece has a least size, because an empty line costs no more than its bytes then. Most heads are longer.
_END_OF_HEAD = b"\r\n\r\n"
_LEAST_PIECE_BYTES = 64
_MAX_HELD_BYTES = 1024 * 1024
# Of a request that asks for an upgrade; such requests have no body, normally.
_MAX_TUNNEL_BODY_BYTES = 64 * 1024


def takes_none(path: str) -> bool:
    return False


class PeerProtocol(HttpToolsProtocol):
    """One client's connection.

    Puts the user of the client's certificate, or why it is not valid, and the `Connection` into the scope's `state`,
    for HTTP and WebSockets, also the name of a front proxy, and marks there a request whose whole body has arrived.
    `newcomer` is this connection until its client is authenticated.
    Refuses a request whose headers take too long or are too large. Hands an upgrade to SPDY over to `spdy_upgrade`;
    upgrades of paths for which `takes_upgrade` is true go to `tunnel`.
    """

    header_seconds = _HEADER_SECONDS

    def __init__(
        self,
        *args: Any,
        takes_upgrade: Callable[[str], bool] = takes_none,
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
        self._peer = Peer()
        # Of a request's body; None: no request is being received.
        self._body_bytes: int | None = None
        self._is_upgraded = False
        # The request that is being answered, or was last.
        self._answered: RequestResponseCycle | None = None
        # Bytes behind a request that waits for the answers to earlier ones.
        self._held = bytearray()
        # The body of a request whose connection goes to a tunnel; None for any other request.
        self._tunnel_body: bytearray | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = peer_of(transport)
        connection = Connection(transport, self.flow, is_tls=self.scheme == "https")
        self.app_state = {**self.app_state, "peer": self._peer.user, "connection": connection}
        if self._peer.front_proxy is not None:
            self.app_state[FRONT_PROXY] = self._peer.front_proxy
        if self._newcomer is not None:
            self._newcomer.close = transport.abort
            if isinstance(self._peer.user, User):
                self._newcomer.leave()
            else:
                self.app_state[NEWCOMER] = self._newcomer
        self._header_timer = self.loop.call_later(self.header_seconds, self._refuse, 408)

    @property
    def has_certificate(self) -> bool:
        """Whether the client has shown a certificate that names a user or a front proxy."""
        return isinstance(self._peer.user, User) or self._peer.front_proxy is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._hand_over()
        super().connection_lost(exc)
        # uvicorn tells only the newest request of the client's disconnect, not the one that is being answered.
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        # After a reset, uvicorn leaves this timer running, which keeps the whole connection in memory.
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def data_received(self, data: bytes) -> None:
        if self._held:
            self._hold(data)
            return
        start = 0
        while start < len(data) and self._is_readable():
            if self.pipeline:
                self._hold(memoryview(data)[start:])
                return
            start = self._parse_piece(data, start)

    def _is_readable(self) -> bool:
        return not self._is_upgraded and not self.transport.is_closing()

    def _parse_piece(self, data: bytes | bytearray, start: int) -> int:
        """Parse the piece at `start`, which ends with a head or a body; return its end."""
        end = start + self._missing_bytes()
        if end <= start:
            found = data.find(_END_OF_HEAD, start + _LEAST_PIECE_BYTES - len(_END_OF_HEAD))
            end = len(data) if found < 0 else found + len(_END_OF_HEAD)
        self._parse(bytes(data[start:end]))
        if self._is_readable() and self.parser.should_upgrade():
            return len(data)  # an upgrade that is ignored: the parser takes what follows for the other protocol
        return end

    def _missing_bytes(self) -> int:
        """Return how many bytes of a body are known to come; 0 or less: unknown."""
        if self._body_bytes is None:
            return 0
        lengths = (int(value) for name, value in self.headers if name == b"content-length")
        return next(lengths, 0) - self._body_bytes

    def _hold(self, data: bytes | memoryview) -> None:
        """Keep bytes until the requests before them are answered, and read no more."""
        self._held += data
        if len(self._held) > _MAX_HELD_BYTES:
            self.transport.abort()
        else:
            self.flow.pause_reading()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()
        while self._held and not self.pipeline and self._is_readable():
            del self._held[: self._parse_piece(self._held, 0)]
        if self._held:
            self.flow.pause_reading()

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        if not self._awaits_headers or self.transport.is_closing():
            return
        self._header_bytes += len(data)
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431)
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_seconds, self._refuse, 408)

    def on_message_begin(self) -> None:
        self._awaits_headers, self._header_bytes = True, 0
        # OpenSSL verifies a certificate when a session begins, and sessions last, also beyond their first connection.
        if self._peer.until < time.time():
            self.app_state["peer"] = InvalidCredentials("the client certificate has expired")
            self.app_state.pop(FRONT_PROXY, None)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # The parser also calls this for trailers. A proxy that lets no client name a user in headers may pass these on.
        if self._awaits_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._awaits_headers, self._body_bytes = False, 0
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
            if not self.pipeline:
                self._answered = self.cycle
            if self.cycle is not None and not self.cycle.response_started:
                has_body = self.scope["method"] != "HEAD"
                joined = JoinedWrites(self.transport, has_body=has_body)
                self.cycle.transport = joined  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._body_bytes = (self._body_bytes or 0) + len(body)
        if self._tunnel_body is not None:
            self._tunnel_body += body
            if len(self._tunnel_body) > _MAX_TUNNEL_BODY_BYTES:
                self._refuse(413)
        elif not self._asks_for_spdy:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_bytes = None
        if self._tunnel_body is not None:
            self._hand_over()
            self.connections.discard(self)
            TunnelProtocol(self.app, self._upgraded_scope(), bytes(self._tunnel_body), self.transport, self.tasks)
        elif self._asks_for_spdy:
            self._upgrade_to_spdy()
        else:
            self.scope["state"][WHOLE_BODY] = True
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if self._tunnel_body is None:
            self._hand_over()
            super().handle_websocket_upgrade()

    def _hand_over(self) -> None:
        """Do not count this connection as unauthenticated: it is closed, or another protocol has it."""
        self._is_upgraded = True
        if self._newcomer is not None:
            self._newcomer.leave()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is not HTTP, with Go's text instead of uvicorn's `msg`."""
        text = f"400 {reason_phrase(400)}".encode()
        headers = ((b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"))
        self.transport.write(render_head(400, headers) + text)
        self.transport.close()

    def _refuse(self, status: int) -> None:
        self._stop_timer()
        # A client that has sent nothing would take this for the answer to its first request.
        if self._header_bytes and (self.cycle is None or self.cycle.response_complete):
            headers = (date_header(), (b"content-length", b"0"), (b"connection", b"close"))
            self.transport.write(render_head(status, headers))
        self.transport.close()

    def _upgrade_to_spdy(self) -> None:
        self._hand_over()
        self.connections.discard(self)
        spdy_upgrade.SpdyProtocol(self.app, self._upgraded_scope(), self.transport, self.tasks)

    def _upgraded_scope(self) -> dict[str, Any]:
        path, _, query = self.url.partition(b"?")
        return {**self.scope, "raw_path": path, "path": unquote(path.decode("latin-1")), "query_string": query}


@dataclass(frozen=True, slots=True)
class Peer:
    """The user of a connection's certificate, and the time until which it is valid (seconds of the epoch).

    `front_proxy` is the common name in the certificate of a front proxy, None for any other certificate.
    """

    user: User | InvalidCredentials | None = None
    until: float = math.inf
    front_proxy: str | None = None


def peer_of(transport: asyncio.Transport) -> Peer:
    """Return who is at the other end of a connection: `user` is None without a certificate that names one."""
    connection = transport.get_extra_info("ssl_object")
    der = None if connection is None else connection.getpeercert(binary_form=True)
    if der is None:
        return Peer()
    certificate = connection.getpeercert()
    until = ssl.cert_time_to_seconds(certificate["notAfter"])
    is_users, is_proxys = True, False
    if isinstance(connection.context, ServerContext) and connection.context.authorities is not None:
        is_users, is_proxys = connection.context.authorities.issued(der)
    proxy = common_name(certificate) if is_proxys else None
    if not is_users:
        return Peer(InvalidCredentials("the client certificate was not issued by the CA of users"), until, proxy)
    try:
        return Peer(user_from_certificate(certificate, der), until, proxy)
    except InvalidCredentials as error:
        return Peer(error, until, proxy)
