"""The listeners of this process, one for each side of a Frontend that has backends. `mode.py` opens and closes them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import random
import socket
from collections import Counter
from collections.abc import Collection, Container, Mapping
from typing import NamedTuple

from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.config import UDP_IDLE_SECONDS
from bridgehead.proxy.frontends import Backend, Frontend

from .apply import raise_limit
from .balancing import Balancer, Memory
from .redirects import LISTENING, Side, sides
from .tcp import Connection, TcpListener
from .udp import Sessions, UdpListener

log = logging.getLogger(__name__)

_MOST_SESSIONS = 16_384

Listener = TcpListener | UdpListener


class _Listening(NamedTuple):
    """The wanted state of a listener: Service port and protocol, backends, affinity timeout in seconds."""

    owner: str
    backends: tuple[Backend, ...]
    seconds: int | None


class Listeners:
    """All listeners, and the clients of Service ports with affinity."""

    def __init__(self, udp_idle_seconds: float = UDP_IDLE_SECONDS) -> None:
        """`udp_idle_seconds`: how long a session outlives its last datagram."""
        self.connections: set[Connection] = set()
        self.ports: dict[Side, int] = {}
        self.unopened: set[Side] = set()  # the listeners that could not be opened
        self._udp_idle_seconds = udp_idle_seconds
        self._listeners: dict[Side, Listener] = {}
        self._wanted: dict[Side, _Listening] = {}
        self._memories: dict[str, Memory] = {}  # by owner and protocol
        self._users: Counter[str] = Counter()  # how many listeners use each memory
        self._sessions: Sessions | None = None
        self._most = 0
        self.inherit({}, ())

    def open(self, frontend: Frontend) -> int:
        """Open or change the listener of each side of the Frontend. Returns how many were opened or changed.

        A listener that cannot be opened is logged once and added to `unopened`; the next call tries again.
        """
        changed = 0
        owner = f"{frontend.owner}/{frontend.key.protocol}"
        for side, backends in sides(frontend).items():
            wanted = _Listening(owner, backends, frontend.affinity_seconds)
            before = self._wanted.get(side)
            if before == wanted:
                continue
            changed += 1
            memory = self._memories.get(owner)
            if memory is None:
                memory = Memory()
            listener = self._listeners.get(side)
            if listener is not None:
                listener.on_removed(listener.balancer.change(backends, wanted.seconds, memory))
            elif not self._listen(side, wanted, memory):
                continue
            self._wanted[side] = wanted
            self._memories[owner] = memory
            self._users[owner] += 1
            if before is not None:
                self._release(before.owner)
        return changed

    def inherit(self, ports: Mapping[Side, int], avoided: Container[int]) -> None:
        """Open listeners of these sides at these ports from now on, and others at none of the `avoided` ports."""
        self._inherited, self._avoided = ports, avoided

    def close_unless(self, candidates: Collection[Side], wanted: Container[Side]) -> dict[Side, int]:
        """Close the candidates that are not wanted. Returns them with their ports."""
        self.unopened.difference_update(side for side in candidates if side not in wanted)
        closed = {side: self.ports[side] for side in candidates if side in self._listeners and side not in wanted}
        for side in closed:
            self._close(side)
        return closed

    def sides(self) -> list[Side]:
        """Return the sides that have a listener, or should have one."""
        return [*self._listeners, *self.unopened]

    def targets(self, side: Side) -> list[AddressPort]:
        """Return where a listener's connections go, [] without such a listener."""
        listener = self._listeners.get(side)
        return listener.balancer.targets if listener is not None else []

    def close(self) -> None:
        """Close all listeners, and end all connections and sessions."""
        for side in list(self._listeners):
            self._close(side)
        for connection in list(self.connections):
            connection.abort()
        if self._sessions is not None:
            self._sessions.close()
            self._sessions = None
        self.unopened.clear()

    def _listen(self, side: Side, wanted: _Listening, memory: Memory) -> bool:
        """Open a listener. False: it cannot be opened; this was logged."""
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
            is_tcp = side.key.protocol == "tcp"
            kind = socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM
            bound = bound_socket(kind, address, self._inherited.get(side, 0), self._avoided)
            if is_tcp:
                listener = TcpListener(loop, bound, balancer, self.connections)
            else:
                listener = UdpListener(self._sessions, bound, balancer)
        except OSError as error:
            if side not in self.unopened:
                log.warning("cannot listen for %s of %s: %s", side, wanted.owner, error.strerror)
            self.unopened.add(side)
            return False
        self.unopened.discard(side)
        self._listeners[side] = listener
        self.ports[side] = listener.port
        return True

    def _close(self, side: Side) -> None:
        self._listeners.pop(side).close()
        del self.ports[side]
        self._release(self._wanted.pop(side).owner)

    def _release(self, owner: str) -> None:
        """Drop the memory of an owner with its last listener."""
        self._users[owner] -= 1
        if not self._users[owner]:
            del self._users[owner], self._memories[owner]


def bound_socket(kind: socket.SocketKind, address: str, port: int, avoided: Container[int]) -> socket.socket:
    """Return a non-blocking socket at `port`, or at any other port if that is 0 or in use, but none of `avoided`.

    Raises OSError if there is no free socket or port.
    """
    if port:
        with contextlib.suppress(OSError):
            return _bind(kind, address, port)
    with contextlib.ExitStack() as rejected:  # held until a usable port is found, so that the kernel offers others
        while True:
            candidate = _bind(kind, address, 0)
            if candidate.getsockname()[1] not in avoided:
                return candidate
            rejected.enter_context(candidate)


def _bind(kind: socket.SocketKind, address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    new = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    try:
        if port and kind == socket.SOCK_STREAM:
            # Connections of the last run may still be in TIME_WAIT.
            new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        new.bind((address, port))
    except OSError:
        new.close()
        raise
    return new
