"""A forked child as the reactor sees it: set-up, running, exited. The edge between `processes` and the runtime's
records."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes import processes
from bridgehead.kubelet.runtimes.jobs import Job
from bridgehead.kubelet.runtimes.reactor import Reactor
from bridgehead.kubelet.runtimes.zygote import Zygote, send_job

_PACKET: Final = 8192
_TRACED_SECONDS: Final = 0.1  # between two looks at a process that has ended, but is another one's to wait for


class Exit(msgspec.Struct, frozen=True):
    """`code` is 128 + signal for a process that a signal ended, and `signal` then names it."""

    code: int
    signal: int | None = None


class Listener:
    """What a `Child` tells its owner. `on_started` or `on_failed` comes once; `on_exit` only after `on_started`."""

    def on_descriptor(self, kind: bytes, fd: int) -> None:
        """The child sent a descriptor, which is ours from now on."""
        os.close(fd)

    def on_started(self) -> None:
        raise NotImplementedError

    def on_failed(self, reason: str) -> None:
        """It could not run its program and has been reaped."""
        raise NotImplementedError

    def on_exit(self, exit: Exit) -> None:
        raise NotImplementedError


class Child:
    """A process of the zygote's, forked at once. Raises OSError when it cannot be."""

    def __init__(
        self,
        reactor: Reactor,
        zygote: Zygote,
        job: Job,
        descriptors: Sequence[int],
        listener: Listener,
        *,
        where: bytes,
        pid_namespace: int | None = None,
    ) -> None:
        """`descriptors` are the job's and stay the caller's; `where` and `pid_namespace` as for `Zygote.fork`."""
        self._reactor = reactor
        self._zygote = zygote
        self._listener = listener
        self._failure: str | None = None
        self._started = False
        self.pidfd = -1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.pid = zygote.fork(theirs, where, pid_namespace)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            self.pidfd = os.pidfd_open(self.pid)
            send_job(ours, job, descriptors)
        except OSError:  # out of descriptors or memory: without them we could not look after it
            os.kill(self.pid, signal.SIGKILL)
            zygote.wait(self.pid)
            if self.pidfd >= 0:
                os.close(self.pidfd)
            ours.close()
            raise
        ours.setblocking(False)
        self._status: socket.socket | None = ours
        reactor.watch(ours.fileno(), self._read_status)
        reactor.watch(self.pidfd, self._reap)

    @property
    def is_alive(self) -> bool:
        return self.pidfd >= 0

    def signal(self, number: int) -> None:
        """Fine if it has gone already."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def kill_group(self) -> None:
        """End it and what it started, if it leads a process group."""
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
                self._listener.on_descriptor(data[:1], fd)
            if not data:
                self._close_status()
            elif data.startswith(processes.FAILED):
                self._failure = data[1:].decode("utf-8", "replace")

    def _close_status(self) -> None:
        if self._status is None:
            return
        self._reactor.unwatch(self._status.fileno())
        self._status.close()
        self._status = None
        if self._failure is None:
            self._started = True
            self._listener.on_started()

    def _reap(self) -> None:
        self._read_status()
        self._close_status()
        self._reactor.unwatch(self.pidfd)
        status = self._zygote.poll(self.pid)
        if status is None:
            self._reactor.call_later(_TRACED_SECONDS, self._reap)
            return
        os.close(self.pidfd)
        self.pidfd = -1
        if self._failure is not None:
            self._listener.on_failed(self._failure)
        elif os.WIFSIGNALED(status):
            self._listener.on_exit(Exit(128 + os.WTERMSIG(status), os.WTERMSIG(status)))
        else:
            self._listener.on_exit(Exit(os.WEXITSTATUS(status)))
