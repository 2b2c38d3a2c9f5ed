"""The runtime's process. `bridgehead runtime` calls `serve`.

One thread and one `Reactor` (see `reactor`). A kubelet may disconnect and come back at any time: containers run on, and
`list_containers` still returns those that exited meanwhile.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import sys

from bridgehead import heartbeat
from bridgehead.kubelet.runtimes.image_resolver import ImageDirectories
from bridgehead.kubelet.runtimes.spawn.zygote import Zygote
from bridgehead.network import syscalls
from bridgehead.network.spoofing import PodGuard

from . import coroutines
from .kubelet_connections import RuntimeServer
from .reactor import Reactor
from .runtime_service import RuntimeService

log = logging.getLogger(__name__)


class ServerFailure(Exception):
    """The runtime can't serve; the message is one line."""


def serve(
    *, socket_path: str, root_dir: str, images: ImageDirectories, zygote_socket: socket.socket, lack_of_cgroup: str = ""
) -> None:
    """Serve until SIGTERM or SIGINT, then end all containers. Raises `ServerFailure`.

    `zygote_socket` leads to the process that forks containers (see `zygote.fork_zygote`). `lack_of_cgroup` is the
    reason why the caller could prepare no cgroup: inside the lab's namespaces it may look as if the machine had none.
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
        server = RuntimeServer(reactor, socket_path)
        zygote = Zygote(zygote_socket)
        service = RuntimeService(
            reactor=reactor,
            root_dir=root_dir,
            images=images,
            zygote=zygote,
            lack_of_cgroup=lack_of_cgroup,
            on_exit=server.notify_exit,
        )
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise ServerFailure(f"cannot start the runtime: {where}{error.strerror or error}") from error
    if guard.missing:
        log.warning("%s", guard.missing)
    server.service = service
    _stop_on_signals(reactor, service, server)
    _stop_with_zygote(reactor, zygote)
    log.info("serving on %s, root %s, images %s", socket_path, root_dir, images.local)
    heartbeat.start(reactor.call_later)
    reactor.run()
    has_zygote = zygote.is_alive
    server.close()
    service.close()
    guard.close()
    reactor.close()
    if not has_zygote:
        raise ServerFailure("the zygote, the parent of all containers, has ended, and they with it")


def _stop_with_zygote(reactor: Reactor, zygote: Zygote) -> None:
    """Stop when the zygote ends: without it no container starts and no exit is observed."""

    def check() -> None:
        if not zygote.is_alive:
            reactor.stop()

    reactor.watch(zygote.fileno(), check)


async def _end(reactor: Reactor, service: RuntimeService) -> None:
    await service.end_all()
    reactor.stop()


def _stop_on_signals(reactor: Reactor, service: RuntimeService, server: RuntimeServer) -> None:
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    handled = {signal.SIGTERM, signal.SIGINT}
    for number in handled:
        signal.signal(number, lambda *_: None)

    def read() -> None:
        if handled.intersection(reader.recv(64)):
            log.info("stopping: ending all containers")
            server.stop_listening()
            coroutines.start(_end(reactor, service))
        _ = writer  # lives as long as its reader

    reactor.watch(reader.fileno(), read)
