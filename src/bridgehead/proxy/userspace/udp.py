"""UDP carried through this process: each client of a listener has a session, a socket connected to its backend.

Edge. `listeners.py` opens a `UdpListener` for each side of a Frontend. A session ends when nothing went through it for
the idle timeout, when its backend refuses, or when there are too many of them and it has been idle longest.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from .balancing import Balancer, Place

log = logging.getLogger(__name__)

_DATAGRAMS_AT_ONCE = 64  # before others get their turn

_buffer = bytearray(65_536)
_view = memoryview(_buffer)

Peer = tuple[Any, ...]


class Sessions:
    """All sessions of all listeners, those idle longest first; ends what is idle and what is too much."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle_seconds: float, most: int) -> None:
        self.loop = loop
        self._idle_seconds = idle_seconds
        self._most = most
        self._by_use: OrderedDict[Session, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._by_use)

    def used(self, session: Session) -> None:
        self._by_use[session] = self.loop.time()
        self._by_use.move_to_end(session)
        if self._timer is None:
            self._timer = self.loop.call_later(self._idle_seconds, self._sweep)

    def make_room(self) -> None:
        """End the one idle longest if there are as many as may be."""
        if len(self._by_use) >= self._most:
            self.end_oldest()

    def end_oldest(self) -> bool:
        """False: there is none."""
        if not self._by_use:
            return False
        next(iter(self._by_use)).end()
        return True

    def forget(self, session: Session) -> None:
        self._by_use.pop(session, None)

    def close(self) -> None:
        while self.end_oldest():
            pass
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        self._timer = None
        now = self.loop.time()
        while self._by_use:
            session, used = next(iter(self._by_use.items()))
            if now - used < self._idle_seconds:
                self._timer = self.loop.call_at(used + self._idle_seconds, self._sweep)
                return
            session.end()


class UdpListener:
    """Takes the datagrams of one side of a Frontend."""

    def __init__(self, sessions: Sessions, address: str, balancer: Balancer) -> None:
        """Raises OSError when there is no socket or no port to be had."""
        self.loop = sessions.loop
        self.balancer = balancer
        self.all_sessions = sessions
        self.sessions: dict[Peer, Session] = {}
        self.family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(self.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind((address, 0))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self.loop.add_reader(self._socket.fileno(), self._receive)

    def close(self) -> None:
        """Take nothing more; with the address that clients sent to, their sessions end."""
        for session in list(self.sessions.values()):
            session.end()
        self.loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def gone(self, places: Iterable[Place]) -> None:
        """These backends were removed: their clients get others. An answer that is under way still arrives."""
        gone = frozenset(places)
        for peer, session in list(self.sessions.items()):
            if session.place in gone:
                del self.sessions[peer]

    def reply(self, data: memoryview, peer: Peer) -> None:
        try:
            self._socket.sendto(data, peer)
        except OSError as error:  # as on any other way, a datagram may be lost
            log.debug("no answer to %s: %s", peer[0], error)

    def _receive(self) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                count, peer = self._socket.recvfrom_into(_buffer)
            except BlockingIOError:
                return
            except OSError as error:
                log.debug("udp: %s", error)
                continue
            self._carry(_view[:count], peer)

    def _carry(self, data: memoryview, peer: Peer) -> None:
        """Send a client's datagram on; on another way if its session's backend has refused an earlier one."""
        tried: list[Place] = []
        while len(tried) < 2:
            session = self.sessions.get(peer) or self._begin(peer, tried)
            if session is None or session.send(data):
                return
            tried.append(session.place)

    def _begin(self, peer: Peer, tried: list[Place]) -> Session | None:
        now = self.loop.time()
        place = self.balancer.choose(peer[0], now, tried)
        if place is None:
            return None
        self.all_sessions.make_room()
        try:
            session = Session(self, peer, place)
        except OSError as error:
            log.warning("a datagram to %s:%d is lost: %s", *place, error.strerror)
            self.all_sessions.end_oldest()  # it may be sockets that lack
            return None
        self.balancer.served(peer[0], place, now)
        self.sessions[peer] = session
        return session


class Session:
    """One client of a listener, and the socket that stands for it at its backend."""

    __slots__ = ("_listener", "_peer", "_socket", "place")

    def __init__(self, listener: UdpListener, peer: Peer, place: Place) -> None:
        self._listener = listener
        self._peer = peer
        self.place = place
        self._socket = socket.socket(listener.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.connect(place)
        except OSError:
            self._socket.close()
            raise
        listener.loop.add_reader(self._socket.fileno(), self._receive)
        listener.all_sessions.used(self)

    def send(self, data: memoryview) -> bool:
        """False: the backend is not there, and the session has ended."""
        self._listener.all_sessions.used(self)
        try:
            self._socket.send(data)
        except BlockingIOError:
            return True  # lost, as in any full queue
        except OSError:
            self._refused()
            return False
        return True

    def end(self) -> None:
        listener = self._listener
        if listener.sessions.get(self._peer) is self:
            del listener.sessions[self._peer]
        listener.all_sessions.forget(self)
        listener.loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _receive(self) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                count = self._socket.recv_into(_buffer)
            except BlockingIOError:
                return
            except OSError:
                self._refused()
                return
            self._listener.all_sessions.used(self)
            self._listener.reply(_view[:count], self._peer)

    def _refused(self) -> None:
        self._listener.balancer.failed(self._peer[0])
        self.end()
