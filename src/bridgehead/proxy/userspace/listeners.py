"""The listeners of this process, one for each side of a Frontend that has backends. `mode.py` tells what is wanted."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
from collections import Counter
from collections.abc import Collection, Container
from typing import NamedTuple

from bridgehead.proxy.config import UDP_IDLE_SECONDS
from bridgehead.proxy.frontends import Backend, Frontend

from .apply import raise_limit
from .balancing import Balancer, Memory, Place
from .redirects import LISTENING, Side, sides
from .tcp import Connection, TcpListener
from .udp import Sessions, UdpListener

log = logging.getLogger(__name__)

_MOST_SESSIONS = 16_384

Listener = TcpListener | UdpListener


class _Wanted(NamedTuple):
    """What a listener is for."""

    owner: str
    backends: tuple[Backend, ...]
    seconds: int | None


class Listeners:
    """Opens, changes and closes them; remembers the clients of sticky Service ports."""

    def __init__(self, udp_idle_seconds: float = UDP_IDLE_SECONDS) -> None:
        """`udp_idle_seconds`: how long a session outlives its last datagram."""
        self.connections: set[Connection] = set()
        self.ports: dict[Side, int] = {}
        self.lacking: set[Side] = set()  # those that could not be opened
        self._udp_idle_seconds = udp_idle_seconds
        self._listeners: dict[Side, Listener] = {}
        self._wanted: dict[Side, _Wanted] = {}
        self._memories: dict[str, Memory] = {}  # by owner and protocol
        self._users: Counter[str] = Counter()  # how many listeners use each
        self._sessions: Sessions | None = None
        self._most = 0

    def open(self, frontend: Frontend) -> int:
        """Have a listener for each of its sides. Returns how many were opened or changed. Those that cannot be opened
        are told once and left out, as `lacking`; the next call tries again."""
        touched = 0
        owner = f"{frontend.owner}/{frontend.key.protocol}"
        for side, backends in sides(frontend).items():
            wanted = _Wanted(owner, backends, frontend.affinity_seconds)
            before = self._wanted.get(side)
            if before == wanted:
                continue
            touched += 1
            memory = self._memories.get(owner)
            if memory is None:
                memory = Memory()
            listener = self._listeners.get(side)
            if listener is not None:
                listener.gone(listener.balancer.change(backends, wanted.seconds, memory))
            elif not self._listen(side, wanted, memory):
                continue
            self._wanted[side] = wanted
            self._memories[owner] = memory
            self._users[owner] += 1
            if before is not None:
                self._forget(before.owner)
        return touched

    def close_unless(self, candidates: Collection[Side], wanted: Container[Side]) -> dict[Side, int]:
        """Close those of the candidates that are not wanted. Returns them and the ports they were at."""
        self.lacking.difference_update(side for side in candidates if side not in wanted)
        closed = {side: self.ports[side] for side in candidates if side in self._listeners and side not in wanted}
        for side in closed:
            self._close(side)
        return closed

    def sides(self) -> list[Side]:
        """Those that are there, or should be."""
        return [*self._listeners, *self.lacking]

    def places(self, side: Side) -> list[Place]:
        """Where a listener's connections go, [] when there is none."""
        listener = self._listeners.get(side)
        return listener.balancer.places if listener is not None else []

    def close(self) -> None:
        """End everything, connections too."""
        for side in list(self._listeners):
            self._close(side)
        for connection in list(self.connections):
            connection.abort()
        if self._sessions is not None:
            self._sessions.close()
            self._sessions = None
        self.lacking.clear()

    def _listen(self, side: Side, wanted: _Wanted, memory: Memory) -> bool:
        """False: it cannot be, and was told."""
        balancer = Balancer(wanted.backends, wanted.seconds, memory, random.randrange(len(wanted.backends)))
        address = LISTENING[side.key.family]
        loop = asyncio.get_running_loop()
        if self._sessions is None:
            limit = raise_limit()
            self._sessions = Sessions(loop, self._udp_idle_seconds, max(min(_MOST_SESSIONS, limit // 4), 16))
            self._most = limit * 3 // 4  # connections need sockets, too
        listener: Listener
        try:
            if len(self._listeners) >= self._most:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            if side.key.protocol == "tcp":
                listener = TcpListener(loop, address, balancer, self.connections)
            else:
                listener = UdpListener(self._sessions, address, balancer)
        except OSError as error:
            if side not in self.lacking:
                log.warning("nobody listens for %s of %s: %s", side, wanted.owner, error.strerror)
            self.lacking.add(side)
            return False
        self.lacking.discard(side)
        self._listeners[side] = listener
        self.ports[side] = listener.port
        return True

    def _close(self, side: Side) -> None:
        self._listeners.pop(side).close()
        del self.ports[side]
        self._forget(self._wanted.pop(side).owner)

    def _forget(self, owner: str) -> None:
        """One of its listeners is not its any more."""
        self._users[owner] -= 1
        if not self._users[owner]:
            del self._users[owner], self._memories[owner]
