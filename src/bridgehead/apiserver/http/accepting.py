"""Acceptance of connections, with a bound on those whose clients have not authenticated themselves.

Each connection costs memory before its client has shown any right: about 55 KiB from its first byte to the end of its
TLS handshake. The oldest connections without an authenticated request are therefore closed when there are too many. A
client that does anything at all is done with its handshake long before it becomes the oldest.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable

log = logging.getLogger(__name__)

MAX_UNAUTHENTICATED = 2000
# The time of Go's HTTP server, which counts the handshake as part of reading the headers.
_HANDSHAKE_SECONDS = 32.0
# Number of connections after which those that have been accepted get their turn. A crowd of clients that connect at the
# same time therefore completes its handshakes while it is being accepted, and does not push its own first members out.
_AT_ONCE = 16
# accept(2) also reports the network errors of a connection that waits, which are no errors of the listening socket.
_ERRORS_OF_A_CLIENT = (
    errno.EAGAIN,
    errno.EINTR,
    errno.ECONNABORTED,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENONET,
    errno.ENOPROTOOPT,
    errno.EOPNOTSUPP,
    errno.EPERM,  # a rule of the firewall
    errno.EPROTO,
    errno.ETIMEDOUT,
)
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS = 0.1


def _do_nothing() -> None: ...


class Newcomer:
    """A connection whose client is not authenticated yet. `close` is what ends it."""

    __slots__ = ("_all", "close")

    def __init__(self, all: Newcomers, close: Callable[[], object]) -> None:
        self._all = all
        self.close = close

    def leave(self) -> None:
        """Do not count any more: the client is authenticated, or the connection is closed."""
        self._all.discard(self)
        self.close = _do_nothing


class Newcomers:
    """The connections of clients that are not authenticated yet, at most `limit`, in the order of their arrival."""

    def __init__(self, limit: int = MAX_UNAUTHENTICATED) -> None:
        self._limit = limit
        self._connections: dict[Newcomer, None] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, close: Callable[[], object]) -> Newcomer:
        """Count a connection; close the oldest one if there are too many."""
        newcomer = Newcomer(self, close)
        self._connections[newcomer] = None
        if len(self._connections) > self._limit:
            self.close_oldest()
        return newcomer

    def close_oldest(self) -> bool:
        """Close the oldest connection. Returns False if there is none."""
        oldest = next(iter(self._connections), None)
        if oldest is None:
            return False
        del self._connections[oldest]
        oldest.close()
        return True

    def discard(self, newcomer: Newcomer) -> None:
        self._connections.pop(newcomer, None)


class Acceptor:
    """Accepts the connections of one listening socket. `connect` makes the protocol of a connection.

    `context` has the TLS settings of the next connections. Connections that fail in their handshake are dropped. The
    owner calls `close`.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        connect: Callable[[Newcomer], asyncio.Protocol],
        newcomers: Newcomers,
    ) -> None:
        self._listener = listener
        self.context = context
        self._connect = connect
        self._newcomers = newcomers
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._has_warned = False
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no more connections, and drop those in their handshake."""
        self._loop.remove_reader(self._listener)
        if self._timer is not None:
            self._timer.cancel()
        for handshake in self._handshakes:
            handshake.cancel()

    async def wait_closed(self) -> None:
        """Wait until the handshakes have ended, after `close`."""
        if self._handshakes:
            await asyncio.wait(self._handshakes)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in _ERRORS_OF_A_CLIENT:
                    return
                if error.errno not in _NO_RESOURCES:
                    raise
                # The oldest connection makes room; this method is called again as long as clients wait.
                if not self._newcomers.close_oldest():
                    self._pause(error)
                return
            self._has_warned = False
            connection.setblocking(False)
            handshake = self._loop.create_task(self._open(connection))
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    def _pause(self, error: OSError) -> None:
        """Accept again a little later, because all connections are those of authenticated clients."""
        if not self._has_warned:
            log.warning("can't accept connections for now: %s", error.strerror)
            self._has_warned = True
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(_PAUSE_SECONDS, self._loop.add_reader, self._listener, self._accept)

    async def _open(self, connection: socket.socket) -> None:
        """Carry out the handshake of a connection and give it to its protocol."""
        handshake = asyncio.current_task()
        newcomer = self._newcomers.add(connection.close if handshake is None else handshake.cancel)
        timeout = None if self.context is None else _HANDSHAKE_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._connect(newcomer), connection, ssl=self.context, ssl_handshake_timeout=timeout
            )
        except BaseException as error:
            newcomer.leave()
            with contextlib.suppress(OSError):
                connection.close()
            if not isinstance(error, OSError):  # of which TLS errors and timeouts are
                raise
