"""The process from which everything that runs in a pod descends. It is forked before the runtime knows of any pod.

A fork carries its parent's memory, and the runtime's has the environment of every container of the node, Secrets
included. So the runtime never forks a container itself: it asks the zygote, which knows nothing but how to fork, and
hands the job to the new process over a socket of its own.

    runtime ──"fork", socket, PID namespace──> zygote ── fork ──> process
       │ <──────────────── PID ──────────────────┘                  │
       └──────────── job (a file in memory), descriptors ───────────┘

The processes are the zygote's children: it waits for those that have ended when the runtime asks. They end with the
zygote, and runtime and zygote end with each other.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import struct
import traceback
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import msgspec

from bridgehead.kubelet.runtimes.jobs import Job
from bridgehead.network import syscalls

# What a new process is to be: the first of a new PID namespace, in that of a container, or in the node's.
IN_NEW: Final = b"N"
IN_GIVEN: Final = b"G"
IN_NODE: Final = b"H"
_WAIT: Final = b"W"
_POLL: Final = b"P"
_FAILED: Final = -1
_ANSWER: Final = struct.Struct("=iI")  # PID or _FAILED; wait status or errno
_PID: Final = struct.Struct("=I")
_MAX_DESCRIPTORS: Final = 16

_encoder = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Job)

# Does the job in the forked process, with its descriptors and the socket to report to. Never returns.
Work = Callable[[Job, list[int], socket.socket], NoReturn]


def fork_zygote(work: Work) -> socket.socket:
    """Fork the zygote; the result is the socket for its handle, a `Zygote`.

    Only for a process that has one thread and knows of no pod.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            _serve(theirs, work)
        finally:
            os._exit(1)
    theirs.close()
    return ours


class Zygote:
    """The runtime's end of the socket to the zygote."""

    def __init__(self, to_zygote: socket.socket) -> None:
        self._socket = to_zygote

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.wait()

    def fork(self, theirs: socket.socket, where: bytes, pid_namespace: int | None = None) -> int:
        """A new process with the socket `theirs`, waiting there for its job (`send_job`). Its PID. Raises OSError."""
        descriptors = [theirs.fileno()] if pid_namespace is None else [theirs.fileno(), pid_namespace]
        socket.send_fds(self._socket, [where], descriptors)
        return self._answer()[0]

    def fileno(self) -> int:
        """Readable between two requests only when the zygote has ended (see `is_alive`)."""
        return self._socket.fileno()

    @property
    def is_alive(self) -> bool:
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def wait(self, pid: int) -> int:
        """The wait status of a process that ends by itself at once; the process is then gone. Raises OSError."""
        self._socket.send(_WAIT + _PID.pack(pid))
        return self._answer()[1]

    def poll(self, pid: int) -> int | None:
        """As `wait`, but None while the process is not to be had. Raises OSError.

        A process that another one traces stays the tracer's after its end, until that one lets go of it or ends.
        """
        self._socket.send(_POLL + _PID.pack(pid))
        found, status = self._answer()
        return status if found else None

    def _answer(self) -> tuple[int, int]:
        data = self._socket.recv(_ANSWER.size)
        if len(data) != _ANSWER.size:
            raise ConnectionError("the runtime's zygote has ended")
        pid, value = _ANSWER.unpack(data)
        if pid == _FAILED:
            raise OSError(value, os.strerror(value))
        return pid, value


def send_job(ours: socket.socket, job: Job, descriptors: Sequence[int]) -> None:
    """Give a forked process its job. Raises OSError."""
    memory = os.memfd_create("job", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(_encoder.encode(job))
        socket.send_fds(ours, [b"J"], [memory, *descriptors])
    finally:
        os.close(memory)


def _serve(runtime: socket.socket, work: Work) -> None:
    syscalls.set_parent_death_signal(signal.SIGKILL)
    syscalls.set_process_name("zygote", "bridgehead zygote")
    syscalls.set_dumpable(False)
    for number in (signal.SIGTERM, signal.SIGINT):  # the runtime's to hear; what is sent to the group is not for us
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    os.closerange(3, runtime.fileno())
    os.closerange(runtime.fileno() + 1, 1 << 20)
    gc.disable()  # a collection would copy memory that is shared
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    while True:
        data, fds, _, _ = socket.recv_fds(runtime, 16, _MAX_DESCRIPTORS)
        if not data:
            return
        try:
            answer = _reap(data) if data[:1] in (_WAIT, _POLL) else (_fork(data, fds, own, work), 0)
        except OSError as error:
            answer = _FAILED, error.errno or 0
        finally:
            for fd in fds:
                os.close(fd)
        runtime.send(_ANSWER.pack(*answer))


def _reap(request: bytes) -> tuple[int, int]:
    options = os.WNOHANG if request[:1] == _POLL else 0
    return os.waitpid(_PID.unpack(request[1:])[0], options)


def _fork(where: bytes, fds: list[int], own: int, work: Work) -> int:
    """A process's own PID namespace cannot change, only the one of its children: it is switched for this moment."""
    if where == IN_NEW:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    elif where == IN_GIVEN:
        syscalls.setns(fds[1], syscalls.CLONE_NEWPID)
    try:
        pid = os.fork()
        if pid == 0:
            _be_child(fds[0], work)
        return pid
    finally:
        if where != IN_NODE:
            syscalls.setns(own, syscalls.CLONE_NEWPID)


def _be_child(status: int, work: Work) -> NoReturn:
    try:
        syscalls.set_parent_death_signal(signal.SIGKILL)
        os.closerange(3, status)
        os.closerange(status + 1, 1 << 20)
        os.set_inheritable(status, False)  # its end says that a program has been executed
        with socket.socket(fileno=status) as ours:
            job, descriptors = _receive_job(ours)
            work(job, descriptors, ours)
    except BaseException:  # noqa: BLE001 - a child must never return into the zygote's loop
        with contextlib.suppress(OSError):
            traceback.print_exc()
    finally:
        os._exit(127)


def _receive_job(ours: socket.socket) -> tuple[Job, list[int]]:
    data, fds, _, _ = socket.recv_fds(ours, 1, _MAX_DESCRIPTORS)
    if not data:
        os._exit(0)  # the runtime has given up
    for fd in fds:
        os.set_inheritable(fd, False)
    with open(fds[0], "rb") as file:
        file.seek(0)
        job = _decoder.decode(file.read())
    return job, fds[1:]
