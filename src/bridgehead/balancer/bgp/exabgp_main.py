"""The program of a speaker's ExaBGP process: all BGP sessions of the node.

Usage: python -m bridgehead.balancer.bgp.exabgp_main PARENT. PARENT is the speaker's process id. Requests come on
standard input, answers go to standard output (`exabgp_messages.py`). The process ends with the speaker.

ExaBGP is used as a library, without its own main loop: that one reads the sessions from a file, and drops a request to
read it again while any peer has queued routes, so a peer that does not read would keep others from being changed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from bridgehead.network.syscalls import set_parent_death_signal, set_process_name

from .exabgp_messages import Answer, Request, parse_request, render

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_READ_BYTES = 1 << 16
_REQUESTS_AT_ONCE = 25  # then the sessions have their turn
_TICK_SECONDS = 0.5  # between looks at a session's timers, which are whole seconds
_CONNECT_SECONDS = 0.05  # between looks at a connection that is not there yet, and attempts at one that is refused
_CLOSE_SECONDS = 2.0  # for a peer to read what a session that is closed still has to send
_CEASE_BFD_DOWN = 10  # RFC 9384
_FAMILIES = {"ipv4": 1, "ipv6": 2}  # address family numbers (IANA)
_UNICAST = 1

Report = Callable[[Answer], None]


class _Observer:
    """Receiver of the events of one session, in the place of ExaBGP's API processes."""

    terminate_on_error = False

    def __init__(self, peer: str, report: Report) -> None:
        self._peer = peer
        self._report = report
        self.number = 0  # of the sessions so far

    def broken(self, neighbor: object) -> bool:
        return False

    def connected(self, neighbor: object) -> None:
        """ExaBGP also calls this when a connection has failed; `_Session` looks itself."""

    def up(self, neighbor: object) -> None:
        self.number += 1
        self._report(Answer("up", self._peer, self.number))

    def down(self, neighbor: object, reason: str) -> None:
        self._report(Answer("down", self._peer, reason=reason))


def _as_number(open_message: Any) -> int:
    """Return the AS number in an OPEN message, which a capability has if it is longer than two bytes (RFC 6793)."""
    from exabgp.bgp.message.open.capability.capability import Capability

    return int(open_message.capabilities.get(Capability.CODE.FOUR_BYTES_ASN, open_message.asn))


def has_peer(descriptor: int) -> bool:
    """Return whether a socket is connected."""
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        try:
            sock.getpeername()
        except OSError:
            return False
    return True


class _Session:
    """One session, as a request of the kind "open" asks for. Raises ValueError if ExaBGP refuses the configuration.

    `number`: of the session before.
    """

    def __init__(self, request: Request, number: int, report: Report) -> None:
        from exabgp.configuration.configuration import Configuration
        from exabgp.reactor.api import API
        from exabgp.reactor.peer import Peer

        name = request.peer
        parsed = Configuration([request.text], text=True)
        if not parsed.reload():
            raise ValueError(str(parsed.error))
        (neighbor,) = parsed.neighbors.values()
        # ExaBGP has the routes of sessions with the same addresses and AS numbers in common, whatever their ports.
        neighbor.rib.uncache()
        neighbor.api["neighbor-changes"] = [name]
        self.processes = _Observer(name, report)  # `self` is what ExaBGP calls the reactor
        self.processes.number = number
        self._report = report
        self._name = name
        self._keepalive_seconds = request.number
        self._routes = API(None)
        self._peer = Peer(neighbor, self)
        self._must_run_soon = False
        self._next_turn = 0.0
        self._is_connected = False
        self._closes_at = float("inf")
        self._open_message: Any = None  # of the peer, the last one

    def take(self, request: Request) -> str:
        """Act on a request for the session that is up. Return why it is refused, or ""."""
        if request.number != self.processes.number or not self._peer.established():
            return ""
        self._must_run_soon = True
        if request.kind == "tear down":
            self._peer.teardown(_CEASE_BFD_DOWN)
        elif request.kind == "end of routes":
            from exabgp.protocol.family import AFI, SAFI, Family

            self._peer.neighbor.eor.append(Family(AFI.create(_FAMILIES[request.text]), SAFI.create(_UNICAST)))
        else:
            return self._take_route(request.text)
        return ""

    def _take_route(self, text: str) -> str:
        from exabgp.bgp.message import Action
        from exabgp.configuration.static import ParseStaticRoute

        neighbor = self._peer.neighbor
        changes = self._routes.api_route(text)
        for change in changes:
            is_withdrawal = text.startswith("withdraw")
            change.nlri.action = Action.WITHDRAW if is_withdrawal else Action.ANNOUNCE
            if not is_withdrawal and not ParseStaticRoute.check(change):
                return f"invalid route: {text}"
            neighbor.rib.outgoing.add_to_rib(change)
        return "" if changes else f"unknown route: {text}"

    def run(self, now: float) -> None:
        """Give ExaBGP a turn, in which it handles one message or connects."""
        from exabgp.reactor.peer import ACTION

        if self._peer.socket() < 0 and now < self._next_turn:
            return
        self._next_turn = now + _CONNECT_SECONDS
        self._must_run_soon = self._peer.run() == ACTION.NOW
        self._check_connection(self._peer.socket())
        found = self._peer.proto.negotiated.received_open if self._peer.proto is not None else None
        if found is not None and found is not self._open_message:
            self._open_message = found
            self._report(Answer("open", self._name, _as_number(found)))
            if self._keepalive_seconds:
                # ExaBGP always takes a third of the hold time that was negotiated just now.
                hold_time = self._peer.proto.negotiated.holdtime
                seconds = min(self._keepalive_seconds, hold_time.keepalive())
                hold_time.keepalive = lambda: seconds

    def _check_connection(self, descriptor: int) -> None:
        if descriptor < 0:
            self._is_connected = False
        elif not self._is_connected and has_peer(descriptor):
            self._is_connected = True
            self._report(Answer("connected", self._name))

    def watch(self, poller: select.poll) -> float:
        """Register the socket. Return after how many seconds the session needs a turn, whatever happens."""
        descriptor = self._peer.socket()
        if descriptor < 0:
            return _CONNECT_SECONDS
        # A session that has more to do may wait for a peer that does not read.
        poller.register(descriptor, select.POLLIN | (select.POLLOUT if self._must_run_soon else 0))
        return _TICK_SECONDS

    def close(self, now: float) -> None:
        """End the session as soon as the peer has been sent everything."""
        self._closes_at = min(self._closes_at, now + _CLOSE_SECONDS)

    def is_closed(self, now: float) -> bool:
        """Whether nothing is left to be sent, or the time for it is over, after a call of `close`."""
        if self._closes_at == float("inf"):
            return False
        is_done = not self._must_run_soon and not self._peer.neighbor.rib.outgoing.pending()
        return now >= self._closes_at or not self._peer.established() or is_done

    def end(self) -> int:
        """End the session at once. Return its number."""
        self._peer.remove()
        return self.processes.number


class _Sessions:
    """All sessions, and the loop."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._numbers: dict[str, int] = {}  # of sessions that have ended
        self._answers = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)  # a print somewhere in ExaBGP is no answer
        self._unread = b""
        self._waiting: list[bytes] = []

    def run(self) -> None:
        """Run until the speaker closes standard input."""
        while True:
            poller = select.poll()
            poller.register(_STDIN, select.POLLIN)
            seconds = min((session.watch(poller) for session in self._sessions.values()), default=_TICK_SECONDS)
            events = poller.poll(0 if self._waiting else seconds * 1000)
            if any(descriptor == _STDIN for descriptor, _ in events) and not self._read():
                return
            requests, self._waiting = self._waiting[:_REQUESTS_AT_ONCE], self._waiting[_REQUESTS_AT_ONCE:]
            for line in requests:
                self._take(parse_request(line))
            self._give_turns()

    def _read(self) -> bool:
        data = os.read(_STDIN, _READ_BYTES)
        *lines, self._unread = (self._unread + data).split(b"\n")
        self._waiting += lines
        return bool(data)

    def _give_turns(self) -> None:
        now = time.monotonic()
        for name, session in list(self._sessions.items()):
            try:
                session.run(now)
            except Exception as error:  # noqa: BLE001 - what one peer causes must not end the others' sessions
                self._end(name, f"ExaBGP failed: {error!r}")
                continue
            if session.is_closed(now):
                self._end(name, "")

    def _take(self, request: Request) -> None:
        name = request.peer
        if request.kind == "ping":
            self._report(Answer("pong", name))
            return
        if request.kind == "open":
            if name in self._sessions:
                self._numbers[name] = self._sessions.pop(name).end()
            try:
                self._sessions[name] = _Session(request, self._numbers.get(name, 0), self._report)
            except Exception as error:  # noqa: BLE001 - see `_give_turns`
                self._report(Answer("closed", name, reason=f"ExaBGP refuses the session: {error}"))
            return
        session = self._sessions.get(name)
        if request.kind == "close":
            if session is None:
                self._report(Answer("closed", name))
            else:
                session.close(time.monotonic())
            return
        try:
            refusal = session.take(request) if session is not None else ""
        except Exception as error:  # noqa: BLE001 - see `_give_turns`
            self._end(name, f"ExaBGP failed: {error!r}")
            return
        if request.kind == "route":
            self._report(Answer("refused" if refusal else "done", name, reason=refusal))

    def _end(self, name: str, reason: str) -> None:
        self._numbers[name] = self._sessions.pop(name).end()
        self._report(Answer("closed", name, reason=reason))

    def _report(self, answer: Answer) -> None:
        data = render(answer)
        while data:
            data = data[os.write(self._answers, data) :]


def main() -> None:
    parent = int(sys.argv.pop(1))
    set_parent_death_signal(signal.SIGKILL)  # which also ends a stopped process, and so its connections
    if os.getppid() != parent:  # the speaker ended before the line above
        return
    with contextlib.suppress(OSError):
        set_process_name("exabgp", "bridgehead speaker: ExaBGP")
    from exabgp.environment import getenv
    from exabgp.logger import log

    log.init(getenv())
    _Sessions().run()


if __name__ == "__main__":
    main()
