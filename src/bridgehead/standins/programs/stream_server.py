"""The sockets of the built-in servers: one thread, epoll, keep-alive, a graceful end. A `Session` has the protocol.

The server runs as a container's first process, forked from the zygote, so it uses no asyncio and starts no thread. On
SIGTERM it first accepts every connection in the kernel's queue, then stops listening, answers requests in flight and
exits 0. No request is lost in a rolling update, because the pod's endpoints are removed first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

BACKLOG: Final = 1024
DRAIN_SECONDS: Final = 1.0  # for requests on idle connections that are on their way already
IDLE_SECONDS: Final = 75.0
PAUSE_SECONDS: Final = 0.5  # without new connections, when there are no more descriptors or no memory for one
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CHUNK: Final = 64 << 10  # bytes


class LateAnswer(NamedTuple):
    """The last bytes to send on a connection, which take time to compute: a forked process computes and sends them.

    The end of the server does not wait for that process, and ends it.
    """

    compute: Callable[[], bytes]

    def after(self, first: bytes) -> LateAnswer:
        """The answer with earlier bytes before it."""
        return LateAnswer(lambda: first + self.compute())


class Session(Protocol):
    """The protocol state of a connection."""

    closing: bool  # close when all output is sent
    busy: bool  # part of a request has arrived

    def receive(self, data: bytes, *, draining: bool) -> bytes | LateAnswer:
        """Handle received data and return the bytes to send. With `draining`, an answer should be the last one."""
        ...


class Farewell:
    """The session of a connection that gets `data` and is closed, whatever its client sends."""

    closing = True
    busy = False

    def __init__(self, data: bytes) -> None:
        self.data = data

    def receive(self, data: bytes, *, draining: bool) -> bytes:
        return b""


class Peer(NamedTuple):
    """The sender of a connection or datagram. `own` is the local address of the connection, "" for a datagram."""

    address: str
    port: int
    own: str = ""

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


SessionFactory = Callable[[Peer], Session]
# A datagram and its sender -> the answer, None for no answer.
DatagramHandler = Callable[[bytes, Peer], bytes | None]


class _Connection:
    __slots__ = ("last", "out", "session", "socket", "waits_to_write")

    def __init__(self, connection: socket.socket, session: Session, now: float) -> None:
        self.socket = connection
        self.session = session
        self.out = b""
        self.waits_to_write = False
        self.last = now


class StreamServer:
    """Serves until SIGTERM, SIGINT or SIGQUIT. `after_round` is called after each batch of events (for logs).

    With `linger` (seconds), it goes on serving for that long after the signal.
    """

    def __init__(self, *, after_round: Callable[[], None] | None = None, linger: float = 0.0) -> None:
        self._epoll = select.epoll()
        self._listeners: dict[int, tuple[socket.socket, SessionFactory]] = {}
        self._datagrams: dict[int, tuple[socket.socket, DatagramHandler]] = {}
        self._watched: dict[int, Callable[[], None]] = {}
        self._connections: dict[int, _Connection] = {}
        self._after_round = after_round
        self._linger = linger
        self._lingers_until: float | None = None
        self._drain_until: float | None = None
        self._paused_until: float | None = None

    def listen(self, port: int, factory: SessionFactory, protocol: int = 0) -> int:
        """Returns the port (useful with 0). `protocol` may be IPPROTO_SCTP. Raises OSError."""
        listener = _bind(socket.SOCK_STREAM, port, protocol=protocol)
        listener.listen(BACKLOG)
        self._listeners[listener.fileno()] = (listener, factory)
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        return int(listener.getsockname()[1])

    def listen_datagrams(self, port: int, handler: DatagramHandler) -> int:
        bound = _bind(socket.SOCK_DGRAM, port)
        self._datagrams[bound.fileno()] = (bound, handler)
        self._epoll.register(bound.fileno(), select.EPOLLIN)
        return int(bound.getsockname()[1])

    def watch(self, fd: int, readable: Callable[[], None]) -> None:
        """Call `readable` whenever the descriptor is readable; it has to read everything."""
        self._watched[fd] = readable
        self._epoll.register(fd, select.EPOLLIN)

    def serve(self, started: Callable[[], None]) -> int:
        """Serve until a signal to end; returns the exit code. `started` is called once signals are handled."""
        reader, writer = socket.socketpair()
        for end in (reader, writer):
            end.setblocking(False)
        signal.set_wakeup_fd(writer.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, lambda *_: None)
        # Orphans of the container become children of its first process; with SIG_IGN the kernel reaps them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self._epoll.register(reader.fileno(), select.EPOLLIN)
        next_sweep = time.monotonic() + IDLE_SECONDS
        started()
        while not self._is_drained():
            events = self._epoll.poll(self._longest_wait())
            now = time.monotonic()
            if self._paused_until is not None and now >= self._paused_until:
                self._resume()
            for fd, event in events:
                if fd == reader.fileno():
                    reader.recv(_CHUNK)
                    self._lingers_until = self._lingers_until or now + self._linger
                else:
                    self._handle(fd, event, now)
            if self._lingers_until is not None and now >= self._lingers_until:
                self._begin_drain(now)
            if now >= next_sweep:
                next_sweep = now + IDLE_SECONDS
                self._close_idle(now)
            if self._after_round is not None:
                self._after_round()
        signal.set_wakeup_fd(-1)
        return 0

    def _is_drained(self) -> bool:
        """Whether the server may exit: after a signal, with no request in flight, however long a request takes."""
        if self._drain_until is None:
            return False
        if time.monotonic() < self._drain_until:
            return not self._connections
        return not any(connection.session.busy or connection.out for connection in self._connections.values())

    def _longest_wait(self) -> float:
        if self._drain_until is not None:
            return 0.05
        soonest = [moment for moment in (self._paused_until, self._lingers_until) if moment is not None]
        if soonest:
            return max(min(soonest) - time.monotonic(), 0)
        return IDLE_SECONDS if self._connections else -1

    def _handle(self, fd: int, event: int, now: float) -> None:
        connection = self._connections.get(fd)
        if connection is not None:
            if event & select.EPOLLOUT:
                self._flush(fd, connection)
            if event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR) and fd in self._connections:
                self._receive(fd, connection, now)
        elif fd in self._listeners:
            self._accept(*self._listeners[fd], now)
        elif fd in self._datagrams:
            self._answer_datagrams(*self._datagrams[fd])
        elif fd in self._watched:
            self._watched[fd]()

    def _accept(self, listener: socket.socket, factory: SessionFactory, now: float) -> None:
        while True:
            try:
                accepted, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # the peer has gone: the next connection may work
                if error.errno in _EXHAUSTED:
                    self._pause(now)
                return
            accepted.setblocking(False)
            if accepted.proto != socket.IPPROTO_SCTP:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                own = accepted.getsockname()[0]
            except OSError:
                accepted.close()
                continue
            fd = accepted.fileno()
            session = factory(Peer(plain_address(address[0]), address[1], plain_address(own)))
            connection = self._connections[fd] = _Connection(accepted, session, now)
            self._epoll.register(fd, select.EPOLLIN)
            if isinstance(session, Farewell):
                connection.out = session.data
                self._flush(fd, connection)
            else:
                self._receive(fd, connection, now)  # the request is often there with the connection

    def _pause(self, now: float) -> None:
        """Leave new connections in the kernel's queue for a while. The listener stays readable: epoll would return at
        once, again and again."""
        if self._paused_until is None:
            self._paused_until = now + PAUSE_SECONDS
            for listener in self._listeners:
                self._epoll.modify(listener, 0)

    def _resume(self) -> None:
        self._paused_until = None
        for listener in self._listeners:
            self._epoll.modify(listener, select.EPOLLIN)

    def _receive(self, fd: int, connection: _Connection, now: float) -> None:
        try:
            data = connection.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._close(fd, connection)
            return
        if not data:
            self._close(fd, connection)
            return
        connection.last = now
        answer = connection.session.receive(data, draining=self._drain_until is not None)
        if isinstance(answer, LateAnswer):
            self._answer_late(fd, connection, answer)
            return
        if answer:
            connection.out = connection.out + answer if connection.out else answer
        if connection.out or connection.session.closing:
            self._flush(fd, connection)

    def _flush(self, fd: int, connection: _Connection) -> None:
        try:
            sent = connection.socket.send(connection.out) if connection.out else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(fd, connection)
            return
        connection.out = connection.out[sent:]
        if connection.out:
            if not connection.waits_to_write:  # meanwhile nothing is read: the client does not read either
                connection.waits_to_write = True
                self._epoll.modify(fd, select.EPOLLOUT)
        elif connection.session.closing:
            self._close(fd, connection)
        elif connection.waits_to_write:
            connection.waits_to_write = False
            self._epoll.modify(fd, select.EPOLLIN)

    def _answer_late(self, fd: int, connection: _Connection, answer: LateAnswer) -> None:
        """Leave the connection to a forked process. The server serves meanwhile, also the requests of that process."""
        if self._after_round is not None:
            self._after_round()  # so that the forked process does not log the same lines
        try:
            process = os.fork()
        except OSError as error:  # no more processes: the next request may find one
            fail(f"a request is not answered: {error.strerror}")
        else:
            if process == 0:
                try:
                    self._send_late(fd, connection, answer)
                finally:
                    os._exit(0)  # whatever happened: the rest is for the server alone
        self._close(fd, connection)

    def _send_late(self, fd: int, connection: _Connection, answer: LateAnswer) -> None:
        """Compute and send the answer, in the forked process. Raises OSError."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        # A connection that the server closes ends for its client when this process has closed it, too.
        for other in {*self._listeners, *self._datagrams, *self._connections} - {fd}:
            os.close(other)
        connection.socket.setblocking(True)
        connection.socket.sendall(connection.out + answer.compute())
        if self._after_round is not None:
            self._after_round()

    def _close(self, fd: int, connection: _Connection) -> None:
        del self._connections[fd]
        with contextlib.suppress(OSError):
            self._epoll.unregister(fd)
        connection.socket.close()
        if self._paused_until is not None:
            self._resume()

    def _answer_datagrams(self, bound: socket.socket, handler: DatagramHandler) -> None:
        while True:
            try:
                data, address = bound.recvfrom(_CHUNK)
            except OSError:
                return
            answer = handler(data, Peer(plain_address(address[0]), address[1]))
            if answer is not None:
                with contextlib.suppress(OSError):
                    bound.sendto(answer, address)

    def _begin_drain(self, now: float) -> None:
        if self._drain_until is not None:
            return
        for listener, factory in list(self._listeners.values()):
            self._accept(listener, factory, now)
            self._epoll.unregister(listener.fileno())
            listener.close()
        self._listeners.clear()
        self._drain_until = now + DRAIN_SECONDS

    def _close_idle(self, now: float) -> None:
        for fd, connection in list(self._connections.items()):
            if now - connection.last >= IDLE_SECONDS:
                self._close(fd, connection)


def bind_stream(port: int) -> socket.socket:
    """Return a TCP socket that is bound to a port of all addresses. Raises OSError."""
    return _bind(socket.SOCK_STREAM, port)


def _bind(kind: socket.SocketKind, port: int, *, protocol: int = 0) -> socket.socket:
    """Bind to all addresses of both families, or of IPv4 only if the kernel has no IPv6."""
    bound: socket.socket | None = None
    try:
        bound = socket.socket(socket.AF_INET6, kind, protocol)
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("::", port))
    except OSError as error:
        if bound is not None:
            bound.close()
            if port and isinstance(error, PermissionError):
                raise
        bound = socket.socket(socket.AF_INET, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("0.0.0.0", port))
        except OSError:
            bound.close()
            raise
    bound.setblocking(False)
    return bound


def plain_address(address: str) -> str:
    """An address without the prefix of IPv4-mapped IPv6 addresses."""
    return address.removeprefix("::ffff:") if "." in address else address


class OutputBuffer:
    """Lines for standard output, written once for each batch of events."""

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        self._lines.append(line)

    def flush(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            with contextlib.suppress(OSError):  # the log's reader has gone: continue serving
                os.write(self._fd, ("\n".join(lines) + "\n").encode("utf-8", "replace"))


def fail(message: str) -> int:
    """Write an error message; returns the exit code 1."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
    return 1
