"""A forked process from the runtime's side: set-up, running, exited. The other side is `spawn.program_start`."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes.runtime import ContainerRefused, RuntimeFailure
from bridgehead.kubelet.runtimes.spawn import program_start
from bridgehead.kubelet.runtimes.spawn.jobs import Job
from bridgehead.kubelet.runtimes.spawn.zygote import Zygote, send_job
from bridgehead.objects.core import LinuxContainerUser

from .coroutines import Outcome
from .reactor import Reactor

_PACKET: Final = 256 << 10  # bytes; more than any status message, also that of a user with thousands of groups
# Time between two attempts to reap: until a killed process has ended, or a tracer has let go of one that has ended.
_REAP_SECONDS: Final = 0.1
_FAILURES: Final = {program_start.FAILED: RuntimeFailure, program_start.REFUSED: ContainerRefused}


class Child:
    """A process that the zygote forks when the object is made. Raises OSError.

    `started` is known when its program runs, or fails with `RuntimeFailure` once it has been reaped without having run
    it; `exited` is the exit code of its program, 128 and the signal's number if a signal ended it. `user` is the one it
    changes to.
    """

    def __init__(
        self,
        reactor: Reactor,
        zygote: Zygote,
        job: Job,
        descriptors: Sequence[int],
        *,
        where: bytes,
        pid_namespace: int | None = None,
        for_part: bool = False,
    ) -> None:
        """`descriptors` are copied to the child and stay the caller's; `where`, `pid_namespace` and `for_part` as for
        `Zygote.fork`."""
        self._reactor = reactor
        self._zygote = zygote
        self.started: Outcome[None] = Outcome()
        self.exited: Outcome[int] = Outcome()
        self.user: LinuxContainerUser | None = None
        self._received: dict[bytes, int] = {}  # descriptors that the process sent, by kind
        self._failure: RuntimeFailure | None = None
        self.pidfd = -1
        runtime_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.pid = zygote.fork(child_end, where, pid_namespace, for_part=for_part)
        except BaseException:
            runtime_end.close()
            raise
        finally:
            child_end.close()
        try:
            self.pidfd = os.pidfd_open(self.pid)
            send_job(runtime_end, job, descriptors)
        except OSError:  # out of descriptors or memory: the child could not be supervised
            os.kill(self.pid, signal.SIGKILL)
            reactor.call_later(_REAP_SECONDS, self._reap_unsupervised)
            if self.pidfd >= 0:
                os.close(self.pidfd)
            runtime_end.close()
            raise
        runtime_end.setblocking(False)
        self._status: socket.socket | None = runtime_end
        reactor.watch(runtime_end.fileno(), self._read_status)
        reactor.watch(self.pidfd, self._reap)

    @property
    def is_alive(self) -> bool:
        return self.pidfd >= 0

    def take(self, kind: bytes) -> int:
        """Return a descriptor that the process has sent, the caller's from now on; -1 if there is none."""
        return self._received.pop(kind, -1)

    def signal(self, number: int) -> None:
        """Send a signal. Does nothing after the exit."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def kill_group(self) -> None:
        """Kill the process, and its process group if it leads one."""
        if self.is_alive:
            self.signal(signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _read_status(self) -> None:
        while self._status is not None:
            try:
                data, fds, _, _ = socket.recv_fds(self._status, _PACKET, 4)
            except BlockingIOError:
                return
            except OSError:
                data, fds = b"", []
            for fd in fds:
                os.set_inheritable(fd, False)
                self._keep(data[:1], fd)
            if not data:
                self._close_status()
            elif data[:1] in _FAILURES:
                self._failure = _FAILURES[data[:1]](data[1:].decode("utf-8", "replace"))
            elif data.startswith(program_start.USER):
                self.user = msgspec.json.decode(data[1:], type=LinuxContainerUser)

    def _keep(self, kind: bytes, fd: int) -> None:
        if kind in self._received:
            os.close(fd)
        else:
            self._received[kind] = fd

    def _close_status(self) -> None:
        if self._status is None:
            return
        self._reactor.unwatch(self._status.fileno())
        self._status.close()
        self._status = None
        if self._failure is None:
            self.started.set(None)

    def _reap_unsupervised(self) -> None:
        if self._zygote.reap(self.pid) is None:
            self._reactor.call_later(_REAP_SECONDS, self._reap_unsupervised)

    def _reap(self) -> None:
        self._read_status()
        self._close_status()
        self._reactor.unwatch(self.pidfd)
        status = self._zygote.reap(self.pid)
        if status is None:
            self._reactor.call_later(_REAP_SECONDS, self._reap)
            return
        os.close(self.pidfd)
        self.pidfd = -1
        for fd in self._received.values():
            os.close(fd)
        self._received.clear()
        if self._failure is not None:
            self.started.fail(self._failure)
        elif os.WIFSIGNALED(status):
            self.exited.set(128 + os.WTERMSIG(status))
        else:
            self.exited.set(os.WEXITSTATUS(status))
