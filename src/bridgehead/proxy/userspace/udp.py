"""The relay of UDP: each client of a listener has a session, which is a socket connected to its backend.

`listeners.py` opens a `UdpListener` for each side of a Frontend. A session ends when it was idle for the timeout, when
its backend refuses datagrams, or when there are too many sessions and this one is idle longest.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from bridgehead.proxy.address_texts import AddressPort

from .balancing import Balancer

log = logging.getLogger(__name__)

_DATAGRAMS_AT_ONCE = 64  # before the event loop serves other sockets

_buffer = bytearray(65_536)
_view = memoryview(_buffer)

Peer = tuple[Any, ...]


class Sessions:
    """The sessions of all listeners, those idle longest first. `most`: how many there may be."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle_seconds: float, most: int) -> None:
        self.loop = loop
        self._idle_seconds = idle_seconds
        self._most = most
        self._by_use: OrderedDict[Session, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._by_use)

    def on_used(self, session: Session) -> None:
        self._by_use[session] = self.loop.time()
        self._by_use.move_to_end(session)
        if self._timer is None:
            self._timer = self.loop.call_later(self._idle_seconds, self._sweep)

    def make_room(self) -> None:
        """End the session idle longest if there are as many as allowed."""
        if len(self._by_use) >= self._most:
            self.end_oldest()

    def end_oldest(self) -> bool:
        """End the session idle longest. False: there is none."""
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
    """A listener for one side of a Frontend."""

    def __init__(self, sessions: Sessions, bound: socket.socket, balancer: Balancer) -> None:
        """Receive from the socket `bound`, which belongs to the listener from now on."""
        self.loop = sessions.loop
        self.balancer = balancer
        self.all_sessions = sessions
        self.sessions: dict[Peer, Session] = {}
        self._socket = bound
        self.port: int = self._socket.getsockname()[1]
        self.loop.add_reader(self._socket.fileno(), self._receive)

    def close(self) -> None:
        """Receive nothing more, and end all sessions, which reply through this socket."""
        for session in list(self.sessions.values()):
            session.end()
        self.loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def on_removed(self, targets: Iterable[AddressPort]) -> None:
        """Let clients of removed backends get others. Replies of the removed ones still arrive."""
        removed = frozenset(targets)
        for peer, session in list(self.sessions.items()):
            if session.target in removed:
                del self.sessions[peer]

    def reply(self, data: memoryview, peer: Peer) -> None:
        try:
            self._socket.sendto(data, peer)
        except OSError as error:  # a datagram may be lost, as anywhere
            log.debug("cannot reply to %s: %s", peer[0], error)

    def _receive(self) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                count, peer = self._socket.recvfrom_into(_buffer)
            except BlockingIOError:
                return
            except OSError as error:
                log.debug("cannot receive a datagram: %s", error)
                continue
            self._relay(_view[:count], peer)

    def _relay(self, data: memoryview, peer: Peer) -> None:
        """Send a client's datagram to its backend; to another one if that has refused an earlier datagram."""
        tried: list[AddressPort] = []
        while len(tried) < 2:
            session = self.sessions.get(peer) or self._begin(peer, tried)
            if session is None or session.send(data):
                return
            tried.append(session.target)

    def _begin(self, peer: Peer, tried: list[AddressPort]) -> Session | None:
        now = self.loop.time()
        target = self.balancer.choose(peer[0], now, tried)
        if target is None:
            return None
        self.all_sessions.make_room()
        try:
            session = Session(self, peer, target)
        except OSError as error:
            log.warning("cannot send a datagram to %s:%d: %s", *target, error.strerror)
            self.all_sessions.end_oldest()  # sockets may be exhausted
            return None
        self.balancer.on_connected(peer[0], target, now)
        self.sessions[peer] = session
        return session


class Session:
    """One client of a listener, and the socket through which it reaches its backend."""

    __slots__ = ("_listener", "_peer", "_socket", "target")

    def __init__(self, listener: UdpListener, peer: Peer, target: AddressPort) -> None:
        self._listener = listener
        self._peer = peer
        self.target = target
        family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.connect(target)
        except OSError:
            self._socket.close()
            raise
        listener.loop.add_reader(self._socket.fileno(), self._receive)
        listener.all_sessions.on_used(self)

    def send(self, data: memoryview) -> bool:
        """Send a datagram to the backend. False: the backend refuses datagrams, and the session has ended."""
        self._listener.all_sessions.on_used(self)
        try:
            self._socket.send(data)
        except BlockingIOError:
            return True  # the queue is full, so the datagram is lost
        except OSError:
            self._on_refused()
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
                self._on_refused()
                return
            self._listener.all_sessions.on_used(self)
            self._listener.reply(_view[:count], self._peer)

    def _on_refused(self) -> None:
        self._listener.balancer.on_failed(self._peer[0])
        self.end()
