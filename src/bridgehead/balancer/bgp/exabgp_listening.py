"""Listening sockets of the ExaBGP process, for peers that connect themselves (passive mode).

Sessions whose local address and port are the same have one socket. Connections of other addresses than their peers' are
closed at once. If a peer connects again, the newest connection counts: the peer has lost the one before.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections import Counter
from typing import NamedTuple

from .exabgp import SessionSettings
from .exabgp_sockets import set_password

_BACKLOG = 16
_CONNECTIONS_AT_ONCE = 16


class _Listener:
    def __init__(self, local: tuple[str, int]) -> None:
        family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.accepted: dict[str, socket.socket | None] = {}  # by the addresses of the peers that are expected
        self.sessions: Counter[str] = Counter()  # that expect a peer: two, while one takes another one's place
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(local)
            self.socket.listen(_BACKLOG)
        except OSError:
            self.socket.close()
            raise

    def accept(self) -> None:
        for _ in range(_CONNECTIONS_AT_ONCE):
            try:
                sock, (peer, *_) = self.socket.accept()
            except OSError:  # nothing waits any more, or it has gone again
                return
            if peer in self.accepted:
                self.replace(peer, sock)
            else:
                sock.close()

    def replace(self, peer: str, sock: socket.socket | None) -> None:
        waiting, self.accepted[peer] = self.accepted[peer], sock
        if waiting is not None:
            waiting.close()


class Expected(NamedTuple):
    """A peer that is expected: the local address and port, and the peer's address."""

    local: tuple[str, int]
    peer: str


class Listening:
    """All listening sockets."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, int], _Listener] = {}

    def expect(self, settings: SessionSettings) -> Expected:
        """Accept connections of a peer until `forget`. Raises OSError, and ExaBGP's NetworkError about a password."""
        expected = Expected((str(settings.local_address), settings.listen_port), str(settings.peer_address))
        listener = self._listeners.get(expected.local)
        if listener is None:
            listener = self._listeners[expected.local] = _Listener(expected.local)
        listener.accepted.setdefault(expected.peer, None)
        listener.sessions[expected.peer] += 1
        try:
            set_password(listener.socket, settings)
        except Exception:
            self.forget(expected)
            raise
        return expected

    def forget(self, expected: Expected) -> None:
        """Accept no connection of a peer any more, unless another session expects it, too."""
        listener = self._listeners[expected.local]
        listener.sessions[expected.peer] -= 1
        if listener.sessions[expected.peer]:
            return
        listener.replace(expected.peer, None)
        del listener.accepted[expected.peer]
        if not listener.accepted:
            self._listeners.pop(expected.local).socket.close()

    def is_waiting(self, expected: Expected) -> bool:
        """Return whether a connection of the peer waits for `take`."""
        return self._listeners[expected.local].accepted[expected.peer] is not None

    def take(self, expected: Expected) -> socket.socket | None:
        """Return the connection of a peer, once; None if there is none."""
        accepted = self._listeners[expected.local].accepted
        sock, accepted[expected.peer] = accepted[expected.peer], None
        return sock

    def register(self, poller: select.poll) -> None:
        for listener in self._listeners.values():
            poller.register(listener.socket, select.POLLIN)

    def accept(self) -> None:
        """Accept the connections that wait."""
        for listener in self._listeners.values():
            with contextlib.suppress(OSError):
                listener.accept()
