"""The runtime's socket: a listener, and a connection for each kubelet that uses it."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from bridgehead.kubelet.runtimes.runtime import ContainerInfo, ImageUnavailable, RuntimeFailure
from bridgehead.kubelet.runtimes.wire import messages

from . import coroutines
from .attached_output import Attachment
from .exec_tasks import ExecStreams
from .reactor import Reactor
from .runtime_service import RuntimeService

log = logging.getLogger(__name__)

# Bytes. A kubelet that does not read is disconnected before it costs the node its memory.
_UNSENT_LIMIT: Final = 32 << 20
_decoder = msgspec.msgpack.Decoder(messages.Request)


class _Answer(NamedTuple):
    """The result of a call, and the descriptors to send with it."""

    result: object = None
    descriptors: Sequence[int] = ()


class RuntimeServer:
    """Accepts connections and keeps them. `service` is set before the reactor runs."""

    service: RuntimeService

    def __init__(self, reactor: Reactor, socket_path: str) -> None:
        self._reactor = reactor
        self._socket_path = socket_path
        self._connections: set[KubeletConnection] = set()
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

    def notify_exit(self, container: ContainerInfo) -> None:
        for connection in list(self._connections):
            connection.send(messages.Exited(container))

    def forget(self, connection: KubeletConnection) -> None:
        self._connections.discard(connection)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        self._connections.add(KubeletConnection(self._reactor, self, accepted))


class KubeletConnection:
    """The connection of one kubelet.

    Exec and attach sessions end with the connection that opened them; commands go on.
    """

    def __init__(self, reactor: Reactor, server: RuntimeServer, accepted: socket.socket) -> None:
        self._reactor = reactor
        self._server = server
        self._socket = accepted
        self._frames = messages.FrameBuffer()
        self._unsent: deque[tuple[bytes, Sequence[int]]] = deque()
        self._unsent_bytes = 0
        self._sessions: dict[int, ExecStreams | Attachment] = {}
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

    # Sending.

    def send(self, message: messages.FromRuntime, descriptors: Sequence[int] = ()) -> None:
        """Send a message; `descriptors` belong to the connection from now on."""
        if not self._open:
            _close_all(descriptors)
            return
        frame = messages.encode_frame(message)
        self._unsent.append((frame, descriptors))
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > _UNSENT_LIMIT:
            log.warning("a kubelet does not read its messages: closing the connection")
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
                self._unsent[0] = (frame[sent:], ())
        self._reactor.watch_writable(self._socket.fileno(), None)

    def _fail(self, request: int, error: Exception) -> None:
        kind = type(error).__name__
        if not isinstance(error, ImageUnavailable | RuntimeFailure | TimeoutError):
            log.error("request failed", exc_info=error)
            kind = RuntimeFailure.__name__
        self.send(messages.Reply(request, messages.encode_result(str(error)), failure=kind))

    # Receiving.

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
            log.warning("closing a connection that does not use the runtime's protocol: %s", error)
            self.close()
            return
        if not data:
            self.close()
            return
        for request in requests:
            coroutines.start(self._handle(request))

    async def _handle(self, request: messages.Request) -> None:
        try:
            answer = await self._perform(request.call)
        except Exception as error:  # noqa: BLE001 - the reply reports it; an unexpected error is logged as well
            self._fail(request.id, error)
            return
        result = messages.encode_result(answer.result)
        self.send(messages.Reply(request.id, result, descriptors=len(answer.descriptors)), answer.descriptors)

    async def _perform(self, call: messages.Call) -> _Answer:
        service = self._server.service
        match call:
            case messages.FindFeatures():
                return _Answer(service.features)
            case messages.FindImage(name):
                return _Answer(service.find_image(name))
            case messages.RunSandbox(spec):
                return _Answer(service.run_sandbox(spec))
            case messages.UpdateSandbox(pod_uid, limits):
                service.update_sandbox(pod_uid, limits)
                return _Answer()
            case messages.RemoveSandbox(pod_uid):
                await service.remove_sandbox(pod_uid)
                return _Answer()
            case messages.ListSandboxes():
                return _Answer(service.list_sandboxes())
            case messages.StartContainer(spec):
                return _Answer(await service.start_container(spec))
            case messages.UpdateContainer(container_id, limits):
                service.update_container(container_id, limits)
                return _Answer()
            case messages.SignalContainer(container_id, number):
                service.signal_container(container_id, number)
                return _Answer()
            case messages.MeasureLayers(pod_uid):
                return _Answer(service.measure_layers(pod_uid))
            case messages.ListContainers():
                return _Answer(service.list_containers())
            case messages.Exec(container_id, argv, timeout):
                return _Answer(await service.exec_in_container(container_id, argv, timeout))
            case messages.OpenExec():
                return await self._open_exec(call)
            case messages.Attach():
                return self._attach(call)
            case messages.CloseExec(session):
                if session in self._sessions:
                    self._sessions[session].end()
                return _Answer()
            case messages.OpenPort(pod_uid, port, address):
                return _Answer(descriptors=[service.connect(pod_uid, port, address).detach()])

    async def _open_exec(self, call: messages.OpenExec) -> _Answer:
        self._last_session += 1
        number = self._last_session
        session = self._sessions[number] = self._server.service.open_exec(
            call.container_id, call.argv, stdin=call.stdin, tty=call.tty, stderr=call.stderr and not call.tty
        )
        try:
            descriptors = await session.opened
        except RuntimeFailure:
            del self._sessions[number]
            raise
        coroutines.start(self._report_end(number, session))
        return _Answer(number, descriptors)

    def _attach(self, call: messages.Attach) -> _Answer:
        self._last_session += 1
        number = self._last_session
        attachment, descriptors, tty = self._server.service.attach(
            call.container_id, stdin=call.stdin, stderr=call.stderr
        )
        self._sessions[number] = attachment
        coroutines.start(self._report_end(number, attachment))
        return _Answer((number, tty), descriptors)

    async def _report_end(self, number: int, session: ExecStreams | Attachment) -> None:
        code = await session.ended
        self._sessions.pop(number, None)
        self.send(messages.ExecEnded(number, code))


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
