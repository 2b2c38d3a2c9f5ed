"""TCP connections carried through this process: accepted at a listener, connected on to a backend, bytes both ways.

Edge. `listeners.py` opens a `TcpListener` for each side of a Frontend. Sockets are served right from the event loop's
readiness callbacks, with one buffer for all of them: a connection keeps bytes of its own only while its receiver is
slower than its sender, never more than one buffer in each direction, and then nothing more is read for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import struct
from collections.abc import Callable, Iterable

from .balancing import Balancer, Place

log = logging.getLogger(__name__)

DIAL_SECONDS = (0.25, 0.5, 1.0, 2.0)  # for each attempt, as in kube-proxy's userspace mode
BUFFER_BYTES = 128 * 1024
_ACCEPTED_AT_ONCE = 64  # before others get their turn
_PAUSE_SECONDS = 0.1
_OUT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CONNECTING = (errno.EINPROGRESS, errno.EALREADY)
_RESET = struct.pack("=ii", 1, 0)  # SO_LINGER: closing answers with RST
# Seconds of silence before asking whether the other end is there, between questions, and how many of them.
_KEPT_ALIVE = (15, 15, 9)
_SUSPECTED = (1, 1, 4)

# The loop is given file descriptors, not sockets: it would make an error text of each that it does not know (any more).
_buffer = bytearray(BUFFER_BYTES)
_view = memoryview(_buffer)


class TcpListener:
    """Accepts the connections of one side of a Frontend. `open_connections` is shared by all listeners."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, address: str, balancer: Balancer, open_connections: set[Connection]
    ) -> None:
        """Raises OSError when there is no socket or no port to be had."""
        self.loop = loop
        self.balancer = balancer
        self.open_connections = open_connections
        self._by_place: dict[Place, set[Connection]] = {}
        self._socket = socket.socket(
            socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK
        )
        self._pause: asyncio.TimerHandle | None = None
        try:
            _prepare(self._socket)
            self._socket.bind((address, 0))
            self._socket.listen(4096)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Accept nothing more. What is connected stays so."""
        if self._pause is not None:
            self._pause.cancel()
        self.loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def gone(self, places: Iterable[Place]) -> None:
        """These backends were removed. A pod that is ending still finishes what it has begun, one that is dead says
        nothing: its connections end after some seconds of that."""
        for place in places:
            for connection in self._by_place.get(place, ()):
                connection.suspect()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client, peer = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF:
                    self._rest(error)
                    return
                continue  # a client that left before it was its turn
            client.setblocking(False)
            connection = Connection(self, client, peer[0])
            self.open_connections.add(connection)
            connection.dial()

    def _rest(self, error: OSError) -> None:
        """Clients wait in the kernel's queue until there are sockets again."""
        if self._pause is None:
            log.warning("connections wait: %s", error.strerror)
            self.loop.remove_reader(self._socket.fileno())
            self._pause = self.loop.call_later(_PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self.loop.add_reader(self._socket.fileno(), self._accept)

    def connected(self, connection: Connection, place: Place) -> None:
        self._by_place.setdefault(place, set()).add(connection)

    def ended(self, connection: Connection, place: Place | None) -> None:
        self.open_connections.discard(connection)
        if place is not None:
            others = self._by_place[place]
            others.discard(connection)
            if not others:
                del self._by_place[place]


class Connection:
    """One client's connection. First `dial`s, then the two pipes do everything."""

    __slots__ = ("_address", "_attempt", "_client", "_listener", "_pipes", "_place", "_server", "_timer", "loop")

    def __init__(self, listener: TcpListener, client: socket.socket, address: str) -> None:
        self._listener = listener
        self.loop = listener.loop
        self._client = client
        self._address = address
        self._server: socket.socket | None = None
        self._place: Place | None = None
        self._pipes: tuple[Pipe, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._attempt: list[Place] = []  # every place that was tried, the present one last

    # --- Connecting to a backend -------------------------------------------------------------------------

    def dial(self) -> None:
        """Try one backend after the other until one answers, four times at most."""
        balancer = self._listener.balancer
        while len(self._attempt) < len(DIAL_SECONDS):
            place = balancer.choose(self._address, self.loop.time(), self._attempt)
            if place is None:
                break
            self._attempt.append(place)
            try:
                server = self._server = socket.socket(
                    self._client.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
                )
                _prepare(server)
            except OSError as error:
                log.warning("a connection cannot go on to %s:%d: %s", *place, error.strerror)
                break
            status = server.connect_ex(place)
            if status == errno.EINPROGRESS:
                # A pod on this node has answered by now; the second call only asks how the first one went.
                status = server.connect_ex(place)
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
            log.debug("%s:%d did not answer: %s", *place, errno.errorcode.get(status, status))
        self.abort()

    def _dialed(self) -> None:
        """The backend's socket is writable: connected, or not to be."""
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
        """The backend that is being tried has failed."""
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
        place = self._place = self._attempt[-1]
        self._listener.balancer.served(self._address, place, self.loop.time())
        self._listener.connected(self, place)
        up, down = Pipe(self, self._client, server), Pipe(self, server, self._client)
        self._pipes = (up, down)
        self.loop.add_reader(server.fileno(), down.readable)
        self.loop.add_reader(self._client.fileno(), up.readable)
        up.readable()  # most clients speak first, and have spoken by now

    def suspect(self) -> None:
        """The backend was removed: end when it stays silent to the kernel's own questions."""
        if self._server is not None:
            with contextlib.suppress(OSError):
                _keep_alive(self._server, _SUSPECTED)
                silence = 1000 * (_SUSPECTED[0] + _SUSPECTED[1] * _SUSPECTED[2])
                self._server.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence)

    def finished(self) -> None:
        """One direction has ended; with the other, the connection has."""
        if all(pipe.is_finished for pipe in self._pipes):
            self._close()

    def abort(self) -> None:
        """One end broke: the other one shall know that it was no proper ending."""
        for end in (self._client, self._server):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close()

    def _close(self) -> None:
        self._listener.ended(self, self._place)
        self._place = None
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
    """One direction of a connection. The end of what comes in is passed on; the other direction goes on."""

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
        self._connection.finished()


def _send(send: Callable[[memoryview], int], data: memoryview) -> int:
    """How many bytes were taken; none when there is no room."""
    try:
        return send(data)
    except BlockingIOError:
        return 0


def _prepare(end: socket.socket) -> None:
    """Bytes go on as they come, and a peer that has vanished is found out. What a listener accepts inherits it."""
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _keep_alive(end, _KEPT_ALIVE)


def _keep_alive(end: socket.socket, seconds: tuple[int, int, int]) -> None:
    idle, between, times = seconds
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, between)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, times)
