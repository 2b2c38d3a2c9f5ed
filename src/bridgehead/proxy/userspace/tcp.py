"""The relay of TCP connections: accepts at a listener, connects to a backend, copies bytes in both directions.

`listeners.py` opens a `TcpListener` for each side of a Frontend. The event loop's readiness callbacks copy bytes with
one buffer for all connections. A connection has bytes of its own only while its receiver is slower than its sender, at
most one buffer in each direction, and then nothing more is read for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import struct
from collections.abc import Callable, Iterable

from bridgehead.proxy.address_texts import AddressPort

from .balancing import Balancer

log = logging.getLogger(__name__)

DIAL_SECONDS = (0.25, 0.5, 1.0, 2.0)  # the timeout of each attempt, as in kube-proxy's userspace mode
BUFFER_BYTES = 128 * 1024
_ACCEPTED_AT_ONCE = 64  # before the event loop serves other sockets
_PAUSE_SECONDS = 0.1  # of a listener without sockets for its connections
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CONNECTING = (errno.EINPROGRESS, errno.EALREADY)
_RESET = struct.pack("=ii", 1, 0)  # SO_LINGER on, of 0 seconds: close sends RST
# TCP_KEEPIDLE and TCP_KEEPINTVL (seconds), TCP_KEEPCNT.
_KEEP_ALIVE = (15, 15, 9)
_KEEP_ALIVE_WITHOUT_BACKEND = (1, 1, 4)

# The event loop gets file descriptors instead of sockets: for a socket that it does not know it would format an error.
_buffer = bytearray(BUFFER_BYTES)
_view = memoryview(_buffer)


class TcpListener:
    """A listener for one side of a Frontend. `open_connections` is shared by all listeners."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bound: socket.socket,
        balancer: Balancer,
        open_connections: set[Connection],
    ) -> None:
        """Listen on the socket `bound`, which belongs to the listener from now on. Raises OSError."""
        self.loop = loop
        self.balancer = balancer
        self.open_connections = open_connections
        self._by_target: dict[AddressPort, set[Connection]] = {}
        self._socket = bound
        self._pause: asyncio.TimerHandle | None = None
        try:
            _prepare(self._socket)
            self._socket.listen(4096)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more connections. Open ones go on."""
        if self._pause is not None:
            self._pause.cancel()
        self.loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def on_removed(self, targets: Iterable[AddressPort]) -> None:
        """Shorten the keep-alive of connections to removed backends.

        A terminating pod finishes its connections; connections to a dead one end after some seconds.
        """
        for target in targets:
            for connection in self._by_target.get(target, ()):
                connection.suspect()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client, peer = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause_accepting(error)
                    return
                continue  # the client closed the connection before it was accepted
            client.setblocking(False)
            connection = Connection(self, client, peer[0])
            self.open_connections.add(connection)
            connection.dial()

    def _pause_accepting(self, error: OSError) -> None:
        """Leave clients in the kernel's queue until sockets are available again."""
        if self._pause is None:
            log.warning("connections wait for sockets: %s", error.strerror)
            self.loop.remove_reader(self._socket.fileno())
            self._pause = self.loop.call_later(_PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self.loop.add_reader(self._socket.fileno(), self._accept)

    def on_connected(self, connection: Connection, target: AddressPort) -> None:
        self._by_target.setdefault(target, set()).add(connection)

    def on_ended(self, connection: Connection, target: AddressPort | None) -> None:
        self.open_connections.discard(connection)
        if target is not None:
            others = self._by_target[target]
            others.discard(connection)
            if not others:
                del self._by_target[target]


class Connection:
    """One client's connection: `dial` connects to a backend, then two pipes copy the bytes."""

    __slots__ = ("_address", "_attempt", "_client", "_listener", "_pipes", "_server", "_target", "_timer", "loop")

    def __init__(self, listener: TcpListener, client: socket.socket, address: str) -> None:
        self._listener = listener
        self.loop = listener.loop
        self._client = client
        self._address = address
        self._server: socket.socket | None = None
        self._target: AddressPort | None = None
        self._pipes: tuple[Pipe, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._attempt: list[AddressPort] = []  # every target that was tried, the current one last

    # --- Connecting to a backend -------------------------------------------------------------------------

    def dial(self) -> None:
        """Connect to one backend after the other until one answers, at most four times."""
        balancer = self._listener.balancer
        while len(self._attempt) < len(DIAL_SECONDS):
            target = balancer.choose(self._address, self.loop.time(), self._attempt)
            if target is None:
                break
            self._attempt.append(target)
            try:
                family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
                server = self._server = socket.socket(
                    family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
                )
                _prepare(server)
            except OSError as error:
                log.warning("cannot connect to %s:%d: %s", *target, error.strerror)
                break
            status = server.connect_ex(target)
            if status == errno.EINPROGRESS:
                # A pod on this node has answered by now; the second call returns the result of the first one.
                status = server.connect_ex(target)
            if status in (0, errno.EISCONN):
                self._start(server)
                return
            if status in _CONNECTING:
                self.loop.add_writer(server.fileno(), self._dialed)
                seconds = DIAL_SECONDS[len(self._attempt) - 1]
                self._timer = self.loop.call_later(seconds, self._next, "no answer")
                return
            server.close()
            self._server = None
            log.debug("%s:%d did not answer: %s", *target, errno.errorcode.get(status, status))
        self.abort()

    def _dialed(self) -> None:
        """Handle that the backend's socket is writable: it is connected, or has failed."""
        server = self._server
        if server is None:
            return
        status = server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            self._next(errno.errorcode.get(status, str(status)))
            return
        self._stop_dialing(server)
        self._start(server)

    def _next(self, reason: str) -> None:
        """Try another backend, because the current one has failed."""
        log.debug("%s:%d did not answer: %s", *self._attempt[-1], reason)
        if self._server is not None:
            self._stop_dialing(self._server)
            self._server.close()
            self._server = None
        self.dial()

    def _stop_dialing(self, server: socket.socket) -> None:
        self.loop.remove_writer(server.fileno())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- Connected ---------------------------------------------------------------------------------------

    def _start(self, server: socket.socket) -> None:
        target = self._target = self._attempt[-1]
        self._listener.balancer.on_connected(self._address, target, self.loop.time())
        self._listener.on_connected(self, target)
        up, down = Pipe(self, self._client, server), Pipe(self, server, self._client)
        self._pipes = (up, down)
        self.loop.add_reader(server.fileno(), down.readable)
        self.loop.add_reader(self._client.fileno(), up.readable)
        up.readable()  # most clients send first, and have sent by now

    def suspect(self) -> None:
        """End the connection soon if the backend, which was removed, does not answer keep-alive probes."""
        if self._server is not None:
            with contextlib.suppress(OSError):
                _keep_alive(self._server, _KEEP_ALIVE_WITHOUT_BACKEND)
                silence = 1000 * (
                    _KEEP_ALIVE_WITHOUT_BACKEND[0] + _KEEP_ALIVE_WITHOUT_BACKEND[1] * _KEEP_ALIVE_WITHOUT_BACKEND[2]
                )
                self._server.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence)

    def on_finished(self) -> None:
        """Close the connection when both directions have ended."""
        if all(pipe.is_finished for pipe in self._pipes):
            self._close()

    def abort(self) -> None:
        """End the connection with a reset, because one end has failed."""
        for end in (self._client, self._server):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close()

    def _close(self) -> None:
        self._listener.on_ended(self, self._target)
        self._target = None
        if self._timer is not None:
            self._timer.cancel()
        for end in (self._client, self._server):
            number = end.fileno() if end is not None else -1
            if end is not None and number >= 0:
                self.loop.remove_reader(number)
                self.loop.remove_writer(number)
                end.close()
        self._server = None
        self._pipes = ()


class Pipe:
    """One direction of a connection. The end of the stream is passed on; the other direction goes on."""

    __slots__ = ("_connection", "_pending", "_sink", "_source", "is_finished")

    def __init__(self, connection: Connection, source: socket.socket, sink: socket.socket) -> None:
        self._connection = connection
        self._source = source
        self._sink = sink
        self._pending: memoryview | None = None
        self.is_finished = False

    def readable(self) -> None:
        try:
            count = self._source.recv_into(_buffer)
            if not count:
                self._finish()
                return
            sent = _send(self._sink.send, _view[:count])
            if sent < count:
                self._pending = memoryview(bytes(_view[sent:count]))
                loop = self._connection.loop
                loop.remove_reader(self._source.fileno())
                loop.add_writer(self._sink.fileno(), self._writable)
        except BlockingIOError:
            return
        except OSError:
            self._connection.abort()

    def _writable(self) -> None:
        pending = self._pending
        if pending is None:
            return
        try:
            sent = _send(self._sink.send, pending)
        except OSError:
            self._connection.abort()
            return
        if sent < len(pending):
            self._pending = pending[sent:]
            return
        self._pending = None
        loop = self._connection.loop
        loop.remove_writer(self._sink.fileno())
        loop.add_reader(self._source.fileno(), self.readable)

    def _finish(self) -> None:
        self._connection.loop.remove_reader(self._source.fileno())
        self._sink.shutdown(socket.SHUT_WR)
        self.is_finished = True
        self._connection.on_finished()


def _send(send: Callable[[memoryview], int], data: memoryview) -> int:
    """Send, and return how many bytes the kernel took; 0 if its buffer is full."""
    try:
        return send(data)
    except BlockingIOError:
        return 0


def _prepare(end: socket.socket) -> None:
    """Send without delay, and probe idle peers. Accepted sockets inherit both from the listener's."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _keep_alive(end, _KEEP_ALIVE)


def _keep_alive(end: socket.socket, seconds: tuple[int, int, int]) -> None:
    idle, between, times = seconds
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, between)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, times)
