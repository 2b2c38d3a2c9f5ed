"""A relay of TCP connections, in a process beside a stand-in's server: what it receives is sent on, both ways.

TLS passes through as it is, so the answering server's certificate counts.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

from bridgehead.network import syscalls

from .stream_server import BACKLOG, bind_stream

_MOST_CONNECTIONS: Final = 64
_CONNECT_SECONDS: Final = 5.0
_CHUNK: Final = 64 << 10  # bytes; no more is kept for a side that does not read


def run_beside(work: Callable[[], object]) -> None:
    """Run `work` in a forked process, which ends with this one at the latest.

    Call this after `Launch.started`: the runtime waits for the end of all processes that could call it.
    """
    if os.fork():
        return
    try:
        syscalls.set_parent_death_signal(signal.SIGKILL)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        work()
    finally:
        os._exit(0)  # whatever happened: the rest is for the server alone


def listen(port: int) -> socket.socket:
    """Return a listener on a port of all addresses, for a `Relay`. Raises OSError."""
    listener = bind_stream(port)
    listener.listen(BACKLOG)
    return listener


class _Side:
    """A socket of a connection; `other` is the one on the other side."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.other = self
        self.unsent = b""  # to this side
        self.is_last = False  # `unsent` is the rest


class Relay:
    """Passes connections on to `host`, whose address is looked up for each of them, until the process ends."""

    def __init__(self, listener: socket.socket, host: str, port: int) -> None:
        self._listener = listener
        self._destination = (host, port)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._count = 0
        self._problem = ""

    def run(self) -> None:
        while True:
            self.step(None)

    def step(self, timeout: float | None) -> None:
        """Wait for input and handle it."""
        for key, events in self._selector.select(timeout):
            side: _Side | None = key.data
            if side is None:
                self._accept()
            elif side.socket.fileno() >= 0:  # else the other side has just closed both
                self._move(side, events)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = self._listener.accept()
            accepted.setblocking(False)
            self._connect(accepted)

    def _connect(self, accepted: socket.socket) -> None:
        if self._count >= _MOST_CONNECTIONS:
            accepted.close()
            return
        try:
            target = socket.create_connection(self._destination, _CONNECT_SECONDS)
        except OSError as error:
            self._report(str(error))
            accepted.close()
            return
        self._problem = ""
        target.setblocking(False)
        sides = _Side(accepted), _Side(target)
        for side, other in (sides, sides[::-1]):
            side.other = other
            self._selector.register(side.socket, selectors.EVENT_READ, side)
        self._count += 1

    def _report(self, problem: str) -> None:
        """Write a problem into the log once, until it is another one or a connection succeeds."""
        if problem != self._problem:
            self._problem = problem
            host, port = self._destination
            sys.stderr.write(f"stand-in: cannot reach the lab's balancer ({host} port {port}): {problem}\n")
            sys.stderr.flush()

    def _move(self, side: _Side, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(side)
            elif not side.other.unsent:  # otherwise the other side does not read: wait for it
                data = side.socket.recv(_CHUNK)
                side.other.unsent, side.other.is_last = data, not data
                self._send(side.other)
        except BlockingIOError:
            pass
        except OSError:
            self._close(side)

    def _send(self, side: _Side) -> None:
        """Send what waits for a side. Meanwhile, nothing is read from the other one."""
        if side.unsent:
            with contextlib.suppress(BlockingIOError):
                side.unsent = side.unsent[side.socket.send(side.unsent) :]
        if side.is_last and not side.unsent:
            self._close(side)
            return
        wanted = selectors.EVENT_WRITE if side.unsent else selectors.EVENT_READ
        self._watch(side, wanted)
        self._watch(side.other, 0 if side.unsent else selectors.EVENT_READ)

    def _watch(self, side: _Side, events: int) -> None:
        is_watched = side.socket in self._selector.get_map()
        if events and is_watched:
            self._selector.modify(side.socket, events, side)
        elif events:
            self._selector.register(side.socket, events, side)
        elif is_watched:
            self._selector.unregister(side.socket)

    def _close(self, side: _Side) -> None:
        for one in (side, side.other):
            self._watch(one, 0)
            one.socket.close()
        self._count -= 1
