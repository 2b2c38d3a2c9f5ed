"""One BGP session of the ExaBGP process: its connection, its state machine (RFC 4271), and the routes to be sent.

ExaBGP encodes, decodes and checks the messages. Its own class of peers is not used: that one brings the parser of
ExaBGP's configuration and all address families with it (4 MiB), keeps reading where this speaker has nothing to read,
and may write a KEEPALIVE message into the middle of another one while a peer does not read.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .exabgp import Attributes, SessionSettings, parse_route, parse_settings
from .exabgp_messages import Answer, Request
from .exabgp_objects import as_number, family_of, make_neighbor, make_updates

if TYPE_CHECKING:
    from .routes import Prefix

_STEPS_AT_ONCE = 25  # of sending, then the other sessions have their turn
_TICK_SECONDS = 0.5  # between looks at a session's timers, which are whole seconds
_RETRY_SECONDS = 0.1  # after a failed attempt to connect, and after an established session
_BROKEN_SECONDS = 1.0  # after a connection that did not become a session
_CLOSE_SECONDS = 2.0  # for a peer to read what a session that ends still has to send
_CEASE, _BFD_DOWN = 6, 10  # RFC 9384
_HOLD_TIMER_EXPIRED = 4  # RFC 4271, 6.5
_PATH_FAILED = "the path to the peer failed"
_LONGEST_REASON = 200  # characters: a peer may have written them

Report = Callable[[Answer], None]
Steps = Generator[bool, None, Any]  # yields whether it has more to do at once


class _Owner:
    """The part of ExaBGP's class of peers that its `Protocol` uses."""

    def __init__(self, neighbor: Any) -> None:
        self.neighbor = neighbor
        self.stats: Counter[str] = Counter()
        self._restarted = True  # in the first OPEN message: RFC 4724, restart state


class Session:
    """One session, as a request of the kind "open" asks for. Raises ValueError if there cannot be such a session.

    `number`: of the session before.
    """

    def __init__(self, request: Request, number: int, report: Report) -> None:
        self.number = number
        self._settings = parse_settings(request.text)
        self._owner = _Owner(make_neighbor(self._settings))
        self._report = report
        self._name = request.peer
        self._where = _join(self._settings)
        self._keepalive_seconds = request.number
        self._socket: socket.socket | None = None
        self._steps = self._attempts()
        self._next_attempt = 0.0
        self._is_connecting = self._is_established = self._is_busy = self._is_torn_down = False
        self._last_reason = ""
        self._pending: dict[Prefix, Attributes | None] = {}  # None: withdrawn
        self._ends: deque[int] = deque()  # IP versions whose end-of-RIB markers are to be sent
        self._sending: Iterator[object] | None = None
        self._closes_at = float("inf")

    # --- Requests and turns ---------------------------------------------------------------------------------------

    def take(self, request: Request) -> str:
        """Act on a request for the session that is up. Return why it is refused, or ""."""
        if request.number != self.number or not self._is_established:
            return ""
        self._is_busy = True
        if request.kind == "tear down":
            self._is_torn_down = True
        elif request.kind == "end of routes":
            self._ends.append(int(request.text))
        else:
            try:
                prefix, attributes = parse_route(request.text)
            except ValueError as error:
                return str(error)
            self._pending[prefix] = attributes
        return ""

    def run(self, now: float) -> None:
        """Take a turn, in which one message is read at most, and some are sent."""
        if self._socket is not None or now >= self._next_attempt:
            self._is_busy = next(self._steps)

    def watch(self, poller: select.poll, now: float) -> float:
        """Register the socket. Return after how many seconds the session needs a turn, whatever happens."""
        if self._socket is None:
            return max(0.0, self._next_attempt - now)
        if self._is_connecting:
            poller.register(self._socket, select.POLLOUT)
        else:  # a session that has more to do may wait for a peer that does not read
            poller.register(self._socket, select.POLLIN | (select.POLLOUT if self._is_busy else 0))
        return _TICK_SECONDS

    def close(self, now: float) -> None:
        """End the session as soon as the peer has been sent everything."""
        self._closes_at = min(self._closes_at, now + _CLOSE_SECONDS)

    def is_closed(self, now: float) -> bool:
        """Whether nothing is left to be sent, or the time for it is over, after a call of `close`."""
        if self._closes_at == float("inf"):
            return False
        is_done = self._sending is None and not self._pending and not self._ends
        return now >= self._closes_at or not self._is_established or is_done

    def end(self) -> int:
        """End the session at once. Return its number."""
        self._steps.close()
        self._disconnect()
        return self.number

    # --- The state machine ----------------------------------------------------------------------------------------

    def _attempts(self) -> Generator[bool, None, None]:
        from exabgp.bgp.message import Notification, Notify
        from exabgp.reactor.network.error import NetworkError

        while True:
            protocol = None
            try:
                yield from self._connect()
                protocol = self._make_protocol()
                yield from self._open(protocol)
                yield from self._hold(protocol)
            except Notify as notify:  # which is a Notification, too
                reason = _PATH_FAILED if self._is_torn_down else f"ended by this speaker: {_printable(notify)}"
                if protocol is not None:
                    yield from self._notify(protocol, notify)
            except Notification as notification:
                reason = f"{self._where} ended the session: {_printable(notification)}"
            except NetworkError as error:
                reason = f"{self._where}: {_printable(error)}"
            except OSError as error:
                reason = f"cannot connect to {self._where}: {os.strerror(error.errno or 0).lower()}"
            has_failed = protocol is not None and not self._is_established
            self._disconnect()
            self._next_attempt = time.monotonic() + (_BROKEN_SECONDS if has_failed else _RETRY_SECONDS)
            if protocol is not None or reason != self._last_reason:  # the reason of many attempts is reported once
                self._last_reason = reason
                self._report(Answer("down", self._name, reason=reason))
            yield False

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._is_connecting = self._is_established = self._is_torn_down = False
        self._pending.clear()
        self._ends.clear()
        self._sending = None

    def _connect(self) -> Steps:
        """Connect. Raises OSError and ExaBGP's NetworkError."""
        self._report(Answer("connecting", self._name))
        self._is_connecting = True
        settings = self._settings
        family = socket.AF_INET6 if settings.peer_address.version == 6 else socket.AF_INET
        self._socket = sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if settings.password:
            self._set_password(sock)
        if settings.ttl and family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, settings.ttl)
        elif settings.ttl:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, settings.ttl)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.bind((str(settings.local_address), 0))
        code = sock.connect_ex((str(settings.peer_address), settings.port))
        while code == errno.EINPROGRESS:
            yield False
            poller = select.poll()
            poller.register(sock, select.POLLOUT)
            if poller.poll(0):
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        self._is_connecting = False
        self._report(Answer("connected", self._name))

    def _set_password(self, sock: socket.socket) -> None:
        import base64

        from exabgp.reactor.network.tcp import md5

        settings = self._settings
        password = base64.b64encode(settings.password.encode()).decode()  # the only text that may have any character
        md5(sock, str(settings.peer_address), settings.port, password, True)

    def _make_protocol(self) -> Any:
        from exabgp.reactor.network.connection import Connection
        from exabgp.reactor.protocol import Protocol

        settings = self._settings
        afi, _ = family_of(settings.peer_address.version)
        connection = Connection(afi, str(settings.peer_address), str(settings.local_address))
        connection.io = self._socket
        return Protocol(self._owner).accept(connection)

    def _open(self, protocol: Any) -> Steps:
        """Exchange OPEN messages, and the first KEEPALIVE messages. The speaker limits the time."""
        protocol.negotiated.sent((yield from _last(protocol.new_open(), is_urgent=True)))
        received = yield from _last(protocol.read_open(str(self._settings.peer_address)), is_urgent=False)
        protocol.negotiated.received(received)
        self._report(Answer("open", self._name, as_number(received)))
        protocol.connection.msg_size = protocol.negotiated.msg_size
        protocol.validate_open()
        yield from _last(protocol.new_keepalive(), is_urgent=True)
        yield from _last(protocol.read_keepalive(), is_urgent=False)

    def _hold(self, protocol: Any) -> Steps:
        """Read and send until the session ends, which is raised."""
        from exabgp.bgp.message import NOP, Notify
        from exabgp.bgp.timer import ReceiveTimer, SendTimer
        from exabgp.reactor.network.error import NetworkError

        hold_time = protocol.negotiated.holdtime
        received = ReceiveTimer(protocol.connection.session, hold_time, _HOLD_TIMER_EXPIRED, 0)
        sent = SendTimer(protocol.connection.session, hold_time)
        if self._keepalive_seconds:
            sent.keepalive = min(self._keepalive_seconds, sent.keepalive)
        self._owner._restarted = False
        self._is_established = True
        self._last_reason = ""
        self.number += 1
        self._report(Answer("up", self._name, self.number))
        while True:
            for message in protocol.read_message():
                received.check_ka(message)
                if self._is_torn_down and self._settings.graceful_restart:
                    raise NetworkError(_PATH_FAILED)  # without a NOTIFICATION: the peer keeps routes
                if self._is_torn_down:
                    raise Notify(_CEASE, _BFD_DOWN)
                yield self._send(protocol, sent) or message.TYPE != NOP.TYPE

    def _send(self, protocol: Any, timer: Any) -> bool:
        """Send for one turn. Return whether there is more. A message is begun after the one before has been sent."""
        for _ in range(_STEPS_AT_ONCE):
            if self._sending is None:
                self._sending = self._next_messages(protocol, timer)
            if self._sending is None:
                return False
            if next(self._sending, None) is None:
                self._sending = None
        return True

    def _next_messages(self, protocol: Any, timer: Any) -> Iterator[object] | None:
        if timer.need_ka():
            keepalive: Iterator[object] = protocol.new_keepalive()
            return keepalive
        if self._pending:
            pending, self._pending = self._pending, {}
            return self._send_updates(protocol, pending)
        if self._ends:
            end: Iterator[object] = protocol.new_eor(*family_of(self._ends.popleft()))
            return end
        return None

    def _send_updates(self, protocol: Any, routes: dict[Prefix, Attributes | None]) -> Iterator[object]:
        for update in make_updates(routes):
            for message in update.messages(protocol.negotiated):
                yield from protocol.send(message)

    def _notify(self, protocol: Any, notify: Any) -> Steps:
        """Let the peer know why the session ends, if it reads."""
        from exabgp.reactor.network.error import NetworkError

        deadline = time.monotonic() + _CLOSE_SECONDS
        try:
            for _ in protocol.new_notification(notify):
                if time.monotonic() > deadline:
                    return
                yield True
        except NetworkError:
            return


def _last(messages: Iterable[Any], *, is_urgent: bool) -> Steps:
    """Return the first message that is one: ExaBGP yields NOP while it waits."""
    from exabgp.bgp.message import NOP

    for message in messages:
        if message.TYPE != NOP.TYPE:
            return message
        yield is_urgent
    return None


def _join(settings: SessionSettings) -> str:
    address = str(settings.peer_address)
    return f"[{address}]:{settings.port}" if ":" in address else f"{address}:{settings.port}"


def _printable(error: Exception) -> str:
    text = "".join(character if character.isprintable() else "?" for character in str(error))
    return text[:_LONGEST_REASON]
