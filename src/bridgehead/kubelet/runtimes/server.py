"""The runtime's process: its socket, its kubelets, its end. `bridgehead runtime` calls `serve`.

One thread and one `Reactor`, because it forks (see `reactor`). A kubelet may go and come back at any time: containers
run on, and exits are remembered in what `list_containers` answers.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import resource
import signal
import socket
import sys
from collections import deque
from typing import Any, Final

import msgspec

from bridgehead.kubelet.runtimes import messages
from bridgehead.kubelet.runtimes.containers import Tap
from bridgehead.kubelet.runtimes.execs import Session
from bridgehead.kubelet.runtimes.node import Node
from bridgehead.kubelet.runtimes.reactor import Reactor
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, ExecResult, ImageUnavailable, RuntimeFailure
from bridgehead.kubelet.runtimes.zygote import Zygote
from bridgehead.network import syscalls
from bridgehead.network.spoofing import PodGuard

log = logging.getLogger(__name__)

# A kubelet that does not read is dropped before it costs the node its memory.
_UNSENT_LIMIT: Final = 32 << 20
_decoder = msgspec.msgpack.Decoder(messages.Request)


class ServerFailure(Exception):
    """The runtime can't serve; the message is one line."""


def serve(
    *, socket_path: str, root_dir: str, image_dir: str, to_zygote: socket.socket, lack_of_cgroup: str = ""
) -> None:
    """Serve until SIGTERM or SIGINT, then end all containers. Raises `ServerFailure`.

    `to_zygote` leads to the process that forks containers (see `zygote.fork_zygote`). `lack_of_cgroup` says why whoever
    started us could prepare no cgroup: from in here it may look as if the machine had none.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # several descriptors for each container
    sys.path[:] = [os.path.abspath(entry) for entry in sys.path]  # containers have working directories of their own
    reactor = Reactor()
    try:
        syscalls.set_child_subreaper()
        os.makedirs(root_dir, exist_ok=True)
        guard = PodGuard()
        server = Server(reactor, socket_path)
        zygote = Zygote(to_zygote)
        node = Node(
            reactor=reactor,
            root_dir=root_dir,
            image_dir=image_dir,
            zygote=zygote,
            lack_of_cgroup=lack_of_cgroup,
            on_exit=server.tell_exit,
        )
    except OSError as error:
        raise ServerFailure(f"cannot start the runtime: {error}") from error
    if guard.missing:
        log.warning("%s", guard.missing)
    server.node = node
    _stop_on_signals(reactor, node, server)
    _stop_with_zygote(reactor, zygote)
    log.info("serving on %s, root %s, images %s", socket_path, root_dir, image_dir)
    reactor.run()
    has_zygote = zygote.is_alive
    server.close()
    node.close()
    guard.close()
    reactor.close()
    if not has_zygote:
        raise ServerFailure("the zygote, the parent of all containers, has ended, and they with it")


def _stop_with_zygote(reactor: Reactor, zygote: Zygote) -> None:
    """Without it no container starts and no exit is seen; a new runtime has a new one."""

    def look() -> None:
        if not zygote.is_alive:
            reactor.stop()

    reactor.watch(zygote.fileno(), look)


def _stop_on_signals(reactor: Reactor, node: Node, server: Server) -> None:
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    asked = {signal.SIGTERM, signal.SIGINT}
    for number in asked:
        signal.signal(number, lambda *_: None)

    def read() -> None:
        if asked.intersection(reader.recv(64)):
            log.info("stopping: ending all containers")
            server.stop_listening()
            node.end_all(reactor.stop)
        _ = writer  # lives as long as its reader

    reactor.watch(reader.fileno(), read)


class Server:
    """Listens, and keeps the connections. `node` is set before the reactor runs."""

    node: Node

    def __init__(self, reactor: Reactor, socket_path: str) -> None:
        self._reactor = reactor
        self._socket_path = socket_path
        self._connections: set[Connection] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.makedirs(os.path.dirname(socket_path) or ".", exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket_path)
        self._listener.bind(socket_path)
        os.chmod(socket_path, 0o600)
        self._listener.listen(16)
        self._listener.setblocking(False)
        reactor.watch(self._listener.fileno(), self._accept)

    def stop_listening(self) -> None:
        if self._listener.fileno() >= 0:
            self._reactor.unwatch(self._listener.fileno())
            self._listener.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._socket_path)

    def close(self) -> None:
        self.stop_listening()
        for connection in list(self._connections):
            connection.close()

    def tell_exit(self, container: ContainerInfo) -> None:
        for connection in list(self._connections):
            connection.send(messages.Exited(container))

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        self._connections.add(Connection(self._reactor, self, accepted))


class Connection:
    """One kubelet. Its exec sessions end with it."""

    def __init__(self, reactor: Reactor, server: Server, accepted: socket.socket) -> None:
        self._reactor = reactor
        self._server = server
        self._socket = accepted
        self._frames = messages.FrameBuffer()
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._unsent_bytes = 0
        self._sessions: dict[int, Session | Tap] = {}
        self._last_session = 0
        self._open = True
        accepted.setblocking(False)
        reactor.watch(accepted.fileno(), self._read)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._reactor.unwatch(self._socket.fileno())
        self._socket.close()
        for _, fds in self._unsent:
            _close_all(fds)
        self._unsent.clear()
        for session in list(self._sessions.values()):
            session.end()
        self._server.forget(self)

    # Out.

    def send(self, message: messages.FromRuntime, descriptors: list[int] | None = None) -> None:
        """Takes the descriptors over."""
        if not self._open:
            _close_all(descriptors or [])
            return
        frame = messages.encode_frame(message)
        self._unsent.append((frame, descriptors or []))
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > _UNSENT_LIMIT:
            log.warning("a kubelet does not read what it is told: dropping its connection")
            self.close()
            return
        if len(self._unsent) == 1:
            self._write()

    def _write(self) -> None:
        while self._unsent:
            frame, fds = self._unsent[0]
            try:
                sent = socket.send_fds(self._socket, [frame], fds) if fds else self._socket.send(frame)
            except BlockingIOError:
                self._reactor.watch_writable(self._socket.fileno(), self._write)
                return
            except OSError:
                self.close()
                return
            _close_all(fds)
            self._unsent_bytes -= sent
            if sent == len(frame):
                self._unsent.popleft()
            else:
                self._unsent[0] = (frame[sent:], [])
        self._reactor.watch_writable(self._socket.fileno(), None)

    def _answer(self, request: int, result: Any = None, descriptors: list[int] | None = None) -> None:
        self.send(
            messages.Reply(request, messages.encode_result(result), descriptors=len(descriptors or [])), descriptors
        )

    def _fail(self, request: int, error: Exception) -> None:
        kind = type(error).__name__
        if not isinstance(error, ImageUnavailable | RuntimeFailure | TimeoutError):
            log.error("request failed", exc_info=error)
            kind = RuntimeFailure.__name__
        self.send(messages.Reply(request, messages.encode_result(str(error)), failure=kind))

    # In.

    def _read(self) -> None:
        try:
            data = self._socket.recv(65536)
            bodies = self._frames.feed(data)
            requests = [_decoder.decode(body) for body in bodies]
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        except (messages.BadFrame, msgspec.DecodeError) as error:
            log.warning("dropping a connection that does not speak the runtime's protocol: %s", error)
            self.close()
            return
        if not data:
            self.close()
            return
        for request in requests:
            try:
                self._handle(request.id, request.call)
            except Exception as error:  # noqa: BLE001 - answered to who asked, logged if it is our fault
                self._fail(request.id, error)

    def _handle(self, request: int, call: messages.Call) -> None:
        node = self._server.node
        match call:
            case messages.FindFeatures():
                self._answer(request, node.features)
            case messages.FindImage(name):
                self._answer(request, node.find_image(name))
            case messages.RunSandbox(spec):
                self._answer(request, node.run_sandbox(spec))
            case messages.RemoveSandbox(pod_uid):
                node.remove_sandbox(pod_uid, lambda: self._answer(request))
            case messages.ListSandboxes():
                self._answer(request, node.list_sandboxes())
            case messages.StartContainer(spec):
                node.start_container(spec, lambda result: self._conclude(request, result))
            case messages.SignalContainer(container_id, number):
                node.signal_container(container_id, number)
                self._answer(request)
            case messages.ListContainers():
                self._answer(request, node.list_containers())
            case messages.Exec(container_id, argv, timeout):
                node.exec_in_container(container_id, argv, timeout, lambda result: self._conclude(request, result))
            case messages.OpenExec():
                self._open_exec(request, call)
            case messages.Attach():
                self._attach(request, call)
            case messages.CloseExec(session):
                if session in self._sessions:
                    self._sessions[session].end()
                self._answer(request)
            case messages.OpenPort(pod_uid, port, address):
                self._answer(request, None, [node.connect(pod_uid, port, address).detach()])

    def _conclude(self, request: int, result: ContainerInfo | ExecResult | Exception) -> None:
        if isinstance(result, Exception):
            self._fail(request, result)
        else:
            self._answer(request, result)

    def _open_exec(self, request: int, call: messages.OpenExec) -> None:
        self._last_session += 1
        number = self._last_session

        def opened(result: list[int] | RuntimeFailure) -> None:
            if isinstance(result, RuntimeFailure):
                self._sessions.pop(number, None)
                self._fail(request, result)
            else:
                self._answer(request, number, result)

        self._sessions[number] = self._server.node.open_exec(
            call.container_id,
            call.argv,
            stdin=call.stdin,
            tty=call.tty,
            stderr=call.stderr and not call.tty,
            on_open=opened,
            on_end=functools.partial(self._end_session, number),
        )

    def _attach(self, request: int, call: messages.Attach) -> None:
        self._last_session += 1
        number = self._last_session
        tap, descriptors, tty = self._server.node.attach(
            call.container_id,
            stdin=call.stdin,
            stderr=call.stderr,
            on_end=functools.partial(self._end_session, number),
        )
        self._sessions[number] = tap
        self._answer(request, (number, tty), descriptors)

    def _end_session(self, number: int, code: int) -> None:
        self._sessions.pop(number, None)
        self.send(messages.ExecEnded(number, code))


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
