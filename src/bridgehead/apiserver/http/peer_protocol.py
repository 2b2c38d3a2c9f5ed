"""A client's connection: uvicorn's, with certificates, limits and upgrades.

uvicorn does not pass client certificates to the application, does not bound the time and size of a request's headers,
nor the number of requests that a client sends ahead, and upgrades only to WebSocket. The subclass here uses names of
uvicorn that its documentation does not promise; see `server`.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from httptools import HttpRequestParser

from bridgehead.go_http import reason_phrase, render_head

from .accepting import Newcomer
from .client_authorities import ServerContext
from .joined_writes import JoinedWrites
from .request import FRONT_PROXY, NEWCOMER, PEER_UNTIL, WHOLE_BODY, date_header
from .tunnel import TunnelProtocol, asks_for_upgrade
from .unsent import Connection
from .user import InvalidCredentials, User, common_name, user_from_certificate
from .uvicorn_library import HttpToolsProtocol, RequestResponseCycle

# Limits of a request's headers, as in Kubernetes (ReadHeaderTimeout) and Go (DefaultMaxHeaderBytes). They bound what a
# client costs before it is authenticated.
_HEADER_SECONDS = 32.0
MAX_HEADER_BYTES = 1024 * 1024
# A client may send requests before it has the answers to earlier ones. uvicorn parses all of them at once, and each
# costs 6 KiB. Bytes are therefore parsed in pieces that end with a request's head, and none while a parsed request
# waits. A piece has a least size, because an empty line costs no more than its bytes then. Most heads are longer.
_END_OF_HEAD = b"\r\n\r\n"
_LEAST_PIECE_BYTES = 64
_MAX_HELD_BYTES = 1024 * 1024
# Limit of the body of a request that asks for an upgrade; such requests have no body, normally.
_MAX_TUNNEL_BODY_BYTES = 64 * 1024


# Sec-WebSocket-Key is 16 bytes in base64 (RFC 6455, 4.1).
_WEBSOCKET_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")


def takes_none(path: str) -> bool:
    return False


def takes_any(path: str, query: bytes) -> bool:
    return True


class PeerProtocol(HttpToolsProtocol):
    """One client's connection.

    Puts the user of the client's certificate, or why it is not valid, and the `Connection` into the scope's `state`,
    for HTTP and WebSockets, also the name of a front proxy, and marks there a request whose whole body has arrived.
    `newcomer` is this connection until its client is authenticated.
    Refuses a request whose headers take too long or are too large. Upgrades of paths for which `takes_upgrade` is true
    go to `tunnel`, other upgrades to WebSocket to uvicorn if `takes_socket(path, query)` is true. Any other upgrade is
    ignored, as RFC 9110 (7.8) allows and Kubernetes does, so that the application authenticates and authorizes the
    request before it answers anything.
    """

    header_seconds = _HEADER_SECONDS

    def __init__(
        self,
        *args: Any,
        takes_upgrade: Callable[[str], bool] = takes_none,
        takes_socket: Callable[[str, bytes], bool] = takes_any,
        newcomer: Newcomer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._takes_upgrade = takes_upgrade
        self._takes_socket = takes_socket
        self._newcomer = newcomer
        self._awaits_headers = True
        self._header_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None
        self._asks_for_websocket = False
        # States of a request whose upgrade is ignored: a body follows; a new parser reads the headers again.
        self._awaits_body = self._is_resuming = False
        self._peer = Peer()
        # Bytes of the request's body; None: no request is being received.
        self._body_bytes: int | None = None
        self._is_upgraded = False
        # The request that is being answered, or was last.
        self._answered: RequestResponseCycle | None = None
        # Bytes behind a request that waits for the answers to earlier ones.
        self._held = bytearray()
        # The body of a request whose connection goes to a tunnel; None for any other request.
        self._tunnel_body: bytearray | None = None
        self._tunnel: TunnelProtocol | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = peer_of(transport)
        connection = Connection(transport, self.flow, is_tls=self.scheme == "https")
        self.app_state = {**self.app_state, "peer": self._peer.user, "connection": connection}
        if isinstance(self._peer.user, User):
            self.app_state[PEER_UNTIL] = self._peer.until
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
        # uvicorn notifies only the newest request of the client's disconnect, not the one that is being answered.
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
        if self._tunnel is not None and start < len(data):
            self._tunnel.data_received(data[start:])  # a client that did not wait for the answer

    def _is_readable(self) -> bool:
        return not self._is_upgraded and not self.transport.is_closing()

    def _parse_piece(self, data: bytes | bytearray, start: int) -> int:
        """Parse the piece at `start`, which ends with a head or a body; return its end."""
        end = start + self._missing_bytes()
        if end <= start:
            found = data.find(_END_OF_HEAD, start + _LEAST_PIECE_BYTES - len(_END_OF_HEAD))
            end = len(data) if found < 0 else found + len(_END_OF_HEAD)
        self._parse(bytes(data[start:end]))
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
        if self._tunnel is not None:
            held, self._held = bytes(self._held), bytearray()
            self._tunnel.data_received(held)
        elif self._held:
            self.flow.pause_reading()

    def _unsupported_upgrade_warning(self) -> None:
        """Go on after an upgrade that is ignored, with a new parser: the old one has read to the end of the head only,
        and would take the body for the other protocol.
        """
        if self._is_upgraded:
            return
        self.parser = HttpRequestParser(self)
        if framing := self._framing():
            self._is_resuming = True
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % framing)
            self._is_resuming = False

    def _parse(self, data: bytes) -> None:
        super().data_received(data)
        if not self._awaits_headers or self.transport.is_closing():
            return
        self._header_bytes += len(data)
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431)
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_seconds, self._refuse, 408)

    def on_url(self, url: bytes) -> None:
        if not self._is_resuming:
            super().on_url(url)

    def on_message_begin(self) -> None:
        if self._is_resuming:
            return
        self._awaits_headers, self._header_bytes = True, 0
        # OpenSSL verifies a certificate when a session begins, and sessions last, also beyond their first connection.
        if self._peer.until < time.time():
            self.app_state["peer"] = InvalidCredentials("the client certificate has expired")
            self.app_state.pop(FRONT_PROXY, None)
            self.app_state.pop(PEER_UNTIL, None)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # The parser also calls this for trailers. A proxy that lets no client name a user in headers may pass these on.
        if self._awaits_headers and not self._is_resuming:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_resuming:
            return
        self._awaits_headers, self._body_bytes = False, 0
        self._stop_timer()
        self._tunnel_body, self._asks_for_websocket = None, False
        if self.parser.should_upgrade():
            scope, method = self._upgraded_scope(), self.parser.get_method()
            if asks_for_upgrade(self.headers) and self._takes_upgrade(scope["path"]):
                self._tunnel_body = bytearray()
                self.scope["method"] = method.decode("ascii")
                return
            is_handshake = method == b"GET" and self._is_websocket_handshake()
            self._asks_for_websocket = is_handshake and self._takes_socket(scope["path"], scope["query_string"])
            self._awaits_body = not self._asks_for_websocket and bool(self._framing())
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
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._awaits_body:  # the end of the head of a request whose upgrade is ignored
            self._awaits_body = False
            return
        self._body_bytes = None
        if self._tunnel_body is not None:
            self._hand_over()
            self.connections.discard(self)
            body = bytes(self._tunnel_body)
            self._tunnel = TunnelProtocol(self.app, self._upgraded_scope(), body, self.transport, self.tasks)
        else:
            self.scope["state"][WHOLE_BODY] = True
            super().on_message_complete()

    def _is_websocket_handshake(self) -> bool:
        """Whether the websockets library accepts the handshake; it would refuse others before any authentication."""
        versions = [value for name, value in self.headers if name == b"sec-websocket-version"]
        keys = [value for name, value in self.headers if name == b"sec-websocket-key"]
        is_valid = versions == [b"13"] and len(keys) == 1 and _WEBSOCKET_KEY.fullmatch(keys[0]) is not None
        return is_valid and not self._framing()

    def _framing(self) -> bytes:
        """Return the headers by which a body's end is known, b"" without a body."""
        lines = [
            name + b": " + value + b"\r\n"
            for name, value in self.headers
            if name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        ]
        return b"".join(lines)

    def _should_upgrade(self) -> bool:
        return self._asks_for_websocket and super()._should_upgrade()

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
