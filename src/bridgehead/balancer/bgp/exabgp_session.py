"""One BGP session of the ExaBGP process: its connection, its state machine (RFC 4271), and the routes to be sent.

ExaBGP encodes, decodes and checks the messages. Its own class of peers is not used: that one brings the parser of
ExaBGP's configuration and all address families with it (4 MiB), keeps reading where this speaker has nothing to read,
and may write a KEEPALIVE message into the middle of another one while a peer does not read.
"""

from __future__ import annotations

import itertools
import os
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from .exabgp import parse_route, parse_settings
from .exabgp_listening import Expected, Listening
from .exabgp_messages import Answer, Request
from .exabgp_objects import (
    as_number,
    assume_ipv4,
    carried_versions,
    family_of,
    make_neighbor,
    make_open,
    refreshed_version,
)
from .exabgp_outbox import Outbox
from .exabgp_sockets import connecting, make_socket, set_options
from .exabgp_timers import Timers

if TYPE_CHECKING:
    from bridgehead.balancer.ranges import IpAddress

_TICK_SECONDS = 0.5  # between looks at a session's timers, which are whole seconds
# Pause after an established session; each attempt that fails doubles it. Other attempts follow when the speaker asks.
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 1.0
_STABLE_SECONDS = 10.0  # an established session that ended sooner counts as an attempt that failed
_REFRESH_SECONDS = 1.0  # between two reports that the peer wants routes again
_OPEN_SECONDS = 240.0  # from a connection to a session: the "large value" of RFC 4271, 8.2.2
_CLOSE_SECONDS = 2.0  # for a peer to read what a session that ends still has to send
_CEASE, _BFD_DOWN = 6, 10  # RFC 9384
_HOLD_TIMER_EXPIRED = 4  # RFC 4271, 6.5
_STATE_MACHINE_ERROR, _IN_ESTABLISHED = 5, 3  # RFC 6608
_PATH_FAILED = "the path to the peer failed"
_LONGEST_REASON = 200  # characters: a peer may have written them

Report = Callable[[Answer], None]
Steps = Generator[bool, None, Any]  # yields whether it has more to do at once


class _Owner:
    """The part of ExaBGP's class of peers that its `Protocol` uses."""

    def __init__(self, neighbor: Any) -> None:
        self.neighbor = neighbor
        self.stats: Counter[str] = Counter()


class Session:
    """One session, as a request of the kind "open" asks for. Raises ValueError if there cannot be such a session.

    `number`: of the session before. `listening`: for peers that connect themselves.
    """

    def __init__(self, request: Request, number: int, report: Report, listening: Listening) -> None:
        self.number = number
        self._listening = listening
        self._expected: Expected | None = None  # the peer, if it has to connect
        self._settings = parse_settings(request.text)
        self._has_restarted = True  # in the first OPEN message: RFC 4724, restart state
        self._owner = _Owner(make_neighbor(self._settings))
        self._report = report
        self._name = request.peer
        self._where = _join(self._settings.peer_address, self._settings.port)
        self._attempt = f"connect to {self._where}"
        if self._settings.listen_port:
            self._where = str(self._settings.peer_address)
            self._attempt = f"listen on {_join(self._settings.local_address, self._settings.listen_port)}"
        self._keepalive_seconds = request.number
        self._socket: socket.socket | None = None
        self._steps = self._attempts()
        self._next_attempt = 0.0
        self._pause_seconds = _SHORTEST_PAUSE_SECONDS
        self._is_connecting = self._is_established = self._is_busy = self._is_torn_down = self._is_ending = False
        self._last_reason = ""
        self._outbox = Outbox()
        self._refreshes: set[int] = set()  # IP versions whose routes the peer wants again
        self._refreshed_at = float("-inf")
        self._established_at = float("inf")
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
            self._outbox.put_end(int(request.text))
        else:
            try:
                prefix, attributes = parse_route(request.text)
            except ValueError as error:
                return str(error)
            self._outbox.put_route(prefix, attributes)
        return ""

    def run(self, now: float) -> None:
        """Take a turn, in which one message is read at most, and some are sent."""
        if self._socket is not None or now >= self._next_attempt:
            self._is_busy = next(self._steps)

    def watch(self, poller: select.poll, now: float) -> float:
        """Register the socket. Return after how many seconds the session needs a turn, whatever happens."""
        if self._socket is None:  # `listening` has a socket
            return _TICK_SECONDS if self._expected is not None else max(0.0, self._next_attempt - now)
        if self._is_connecting or self._is_ending:
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
        return now >= self._closes_at or not self._is_established or not self._outbox.has_unsent

    def end(self) -> int:
        """End the session at once. Return its number."""
        self._steps.close()
        self._disconnect()
        if self._expected is not None:
            self._listening.forget(self._expected)
        return self.number

    # --- The state machine ----------------------------------------------------------------------------------------

    def _attempts(self) -> Generator[bool, None, None]:
        from exabgp.bgp.message import Notification, Notify
        from exabgp.reactor.network.error import NetworkError

        self._report(Answer("connecting", self._name))
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
                reason = f"cannot {self._attempt}: {os.strerror(error.errno or 0).lower()}"
            now = time.monotonic()
            if now - self._established_at > _STABLE_SECONDS:
                self._pause_seconds = _SHORTEST_PAUSE_SECONDS
            self._disconnect()
            self._next_attempt = now + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
            if protocol is not None or reason != self._last_reason:  # the reason of many attempts is reported once
                self._last_reason = reason
                self._report(Answer("down", self._name, reason=reason))
            yield False

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._is_connecting = self._is_established = self._is_torn_down = self._is_ending = False
        self._established_at = float("inf")
        self._outbox = Outbox()
        self._refreshes.clear()

    def _connect(self) -> Steps:
        """Connect, or wait for the peer to do so. Raises OSError and ExaBGP's NetworkError."""
        if self._settings.listen_port:
            self._expected = self._expected or self._listening.expect(self._settings)
        if self._expected is None:
            self._is_connecting = True
            self._socket = make_socket(self._settings)
            yield from connecting(self._socket, self._settings)
            self._is_connecting = False
        else:
            while (sock := self._listening.take(self._expected)) is None:
                yield False
            self._socket = sock
            set_options(sock, self._settings)
        self._report(Answer("connected", self._name))

    def _make_protocol(self) -> Any:
        from exabgp.reactor.network.connection import Connection
        from exabgp.reactor.protocol import Protocol

        settings = self._settings
        afi, _ = family_of(settings.peer_address.version)
        connection = Connection(afi, str(settings.peer_address), str(settings.local_address))
        connection.io = self._socket
        return Protocol(self._owner).accept(connection)

    def _open(self, protocol: Any) -> Steps:
        """Exchange OPEN messages, and the first KEEPALIVE messages."""
        deadline = time.monotonic() + _OPEN_SECONDS
        opening = make_open(protocol.neighbor, has_restarted=self._has_restarted)
        for _ in protocol.write(opening):
            yield True
        protocol.negotiated.sent(opening)
        received = yield from self._first(protocol.read_open(str(self._settings.peer_address)), deadline)
        protocol.negotiated.received(received)
        assume_ipv4(protocol.negotiated)
        self._report(Answer("open", self._name, as_number(received)))
        protocol.connection.msg_size = protocol.negotiated.msg_size
        protocol.validate_open()
        for _ in protocol.new_keepalive():
            yield True
        yield from self._first(protocol.read_keepalive(), deadline)

    def _first(self, messages: Iterable[Any], deadline: float) -> Steps:
        """Return the first message: ExaBGP yields NOP while it waits. Raises ExaBGP's Notify and NetworkError."""
        from exabgp.bgp.message import NOP, Notify

        for message in messages:
            if message.TYPE != NOP.TYPE:
                return message
            if time.monotonic() > deadline:
                raise Notify(_HOLD_TIMER_EXPIRED, 0, "")
            self._check_connection()
            yield False
        return None

    def _check_connection(self) -> None:
        """Raise ExaBGP's NetworkError if the peer has connected again: it does not know this connection any more."""
        from exabgp.reactor.network.error import NetworkError

        if self._expected is not None and self._listening.is_waiting(self._expected):
            raise NetworkError("connected anew")

    def _hold(self, protocol: Any) -> Steps:
        """Read and send until the session ends, which is raised."""
        from exabgp.bgp.message import NOP

        now = self._established_at = time.monotonic()
        timers = Timers(int(protocol.negotiated.holdtime), self._keepalive_seconds, now)
        self._has_restarted = False
        self._is_established = True
        self._last_reason = ""
        self.number += 1
        self._report(Answer("up", self._name, self.number, versions=carried_versions(protocol.negotiated)))
        while True:
            for message in protocol.read_message():
                now = time.monotonic()
                is_message = message.TYPE != NOP.TYPE
                if is_message:
                    timers.on_received(now)
                self._check(message, timers, now)
                self._refresh(refreshed_version(message, protocol.negotiated), now)
                self._outbox.send(protocol, timers, now)
                yield self._outbox.has_unsent or is_message

    def _check(self, message: Any, timers: Timers, now: float) -> None:
        """Raise ExaBGP's Notify or NetworkError if the session has to end."""
        from exabgp.bgp.message import Notify, Open
        from exabgp.reactor.network.error import NetworkError

        if message.TYPE == Open.TYPE:
            raise Notify(_STATE_MACHINE_ERROR, _IN_ESTABLISHED)
        if timers.is_peer_silent(now):
            raise Notify(_HOLD_TIMER_EXPIRED, 0, "")
        if timers.is_peer_stuck(now):
            raise NetworkError("it reads nothing")
        self._check_connection()
        if self._is_torn_down and self._settings.graceful_restart:
            raise NetworkError(_PATH_FAILED)  # without a NOTIFICATION: the peer keeps routes
        if self._is_torn_down:
            raise Notify(_CEASE, _BFD_DOWN)

    def _refresh(self, version: int, now: float) -> None:
        """Report that the peer wants its routes again, for all requests of a while together. 0: it does not now."""
        if version:
            self._refreshes.add(version)
        if self._refreshes and now - self._refreshed_at > _REFRESH_SECONDS:
            self._refreshed_at = now
            for found in sorted(self._refreshes):
                self._report(Answer("refresh", self._name, found))
            self._refreshes.clear()

    def _notify(self, protocol: Any, notify: Any) -> Steps:
        """Send a NOTIFICATION with the reason of the end, after the rest of a message that is partly sent."""
        from exabgp.reactor.network.error import NetworkError

        deadline = time.monotonic() + _CLOSE_SECONDS
        self._is_ending = True
        try:
            for _ in itertools.chain(self._outbox.sending or (), protocol.new_notification(notify)):
                if time.monotonic() > deadline:
                    return
                yield True
        except NetworkError:
            return


def _join(address: IpAddress, port: int) -> str:
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _printable(error: Exception) -> str:
    text = "".join(character if character.isprintable() else "?" for character in str(error))
    return text[:_LONGEST_REASON]
