"""The zygote: the process from which every container process is forked, itself forked before there is any pod.

A fork has a copy of its parent's memory, and the runtime's has the environment of every container of the node, Secrets
included. The runtime therefore never forks a container itself: it asks the zygote, which has no data of pods, and sends
the job to the new process over a separate socket.

    runtime ──"fork", socket, PID namespace──> zygote ── fork ──> new process
       │ <──────────────── PID ──────────────────┘                  │
       └──────────── job (a memfd), descriptors ────────────────────┘

The processes are the zygote's children: it reaps those that have ended when the runtime asks. They end with the zygote,
and each of runtime and zygote ends when the other one does.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import socket
import struct
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from bridgehead.network import syscalls
from bridgehead.standins.standin import load_program

from . import user_namespaces
from .forking import prepare_to_fork
from .jobs import Job
from .program_start import close_other_descriptors

# Requests: fork into a new PID namespace, into a given one, or into the node's; reap a process; make a pod's user
# namespace with those that belong to it; import the module of a stand-in's program, which later forks share.
FORK_IN_NEW: Final = b"N"
FORK_IN_GIVEN: Final = b"G"
FORK_IN_NODE: Final = b"H"
# After one of the three: the process will run one of Bridgehead's parts.
_FOR_PART: Final = b"P"
_REAP: Final = b"R"
_NAMESPACES: Final = b"U"
_LOAD: Final = b"L"
_FAILED: Final = -1
_REPLY: Final = struct.Struct("=iI")  # PID or _FAILED; wait status or errno
_PID: Final = struct.Struct("=I")
_IDS: Final = struct.Struct("=II")  # the first id and their number
_MAX_DESCRIPTORS: Final = 16  # in one message
_LARGEST_REQUEST: Final = 64 << 10  # bytes

_encoder = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Job)

# Does a job in the forked process, with the job's descriptors and the status socket. Never returns.
JobRunner = Callable[[Job, list[int], socket.socket], NoReturn]


def fork_zygote(run_job: JobRunner) -> socket.socket:
    """Fork the zygote; returns the socket for its handle, a `Zygote`.

    The calling process must have one thread and no data of pods.
    """
    runtime_end, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            runtime_end.close()
            _serve(zygote_end, run_job)
        finally:
            os._exit(1)
    zygote_end.close()
    return runtime_end


class Zygote:
    """The runtime's handle of the zygote. `zygote_socket` is what `fork_zygote` returned."""

    def __init__(self, zygote_socket: socket.socket) -> None:
        self._socket = zygote_socket
        self._loaded: set[str] = set()

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.wait()

    def fork(
        self, status: socket.socket, where: bytes, pid_namespace: int | None = None, *, for_part: bool = False
    ) -> int:
        """Fork a process that waits on the socket `status` for its job (see `send_job`); returns its PID.

        `where` is FORK_IN_NEW, FORK_IN_NODE, or FORK_IN_GIVEN with the descriptor of a PID namespace. `for_part`: its
        program will be one of Bridgehead's parts. Raises OSError.
        """
        descriptors = [status.fileno()] if pid_namespace is None else [status.fileno(), pid_namespace]
        socket.send_fds(self._socket, [where + _FOR_PART if for_part else where], descriptors)
        return self._receive_reply()[0]

    def load(self, program: str) -> None:
        """Have the module of a stand-in's program loaded, once, so that all processes that run it share its memory.

        `program` as for `load_program`. Errors are left to the process that runs the program. Raises OSError.
        """
        if program not in self._loaded:
            self._socket.send(_LOAD + program.encode())
            self._receive_reply()
            self._loaded.add(program)

    def make_namespaces(self, id_base: int, count: int, settings: Mapping[str, str]) -> dict[str, int]:
        """Make a user namespace with `count` ids from `id_base` on, and the namespaces of a pod that belong to it.

        `settings`: file below /proc/sys that belongs to them -> content. Return descriptors by kind: "user", "net",
        "uts", "ipc". Raises OSError.
        """
        request = _NAMESPACES + _IDS.pack(id_base, count) + msgspec.msgpack.encode(dict(settings))
        if len(request) > _LARGEST_REQUEST:  # the zygote would get a part of it
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        self._socket.send(request)
        data, descriptors, _, _ = socket.recv_fds(self._socket, _REPLY.size, _MAX_DESCRIPTORS)
        _check_reply(data)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return dict(zip(user_namespaces.KINDS, descriptors, strict=True))

    def fileno(self) -> int:
        """The socket's descriptor, which is readable between two requests only when the zygote has ended."""
        return self._socket.fileno()

    @property
    def is_alive(self) -> bool:
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def reap(self, pid: int) -> int | None:
        """Reap a process that has ended; returns its wait status. Raises OSError.

        None while it can't be reaped: a process that has ended while traced is its tracer's until the tracer detaches
        or ends (ptrace(2)). The zygote never blocks for it.
        """
        self._socket.send(_REAP + _PID.pack(pid))
        reaped, status = self._receive_reply()
        return status if reaped else None

    def _receive_reply(self) -> tuple[int, int]:
        return _check_reply(self._socket.recv(_REPLY.size))


def _check_reply(data: bytes) -> tuple[int, int]:
    """Return the PID and the value of an answer. Raises OSError."""
    if len(data) != _REPLY.size:
        raise ConnectionError("the runtime's zygote has ended")
    pid, value = _REPLY.unpack(data)
    if pid == _FAILED:
        raise OSError(value, os.strerror(value))
    return pid, value


def send_job(status: socket.socket, job: Job, descriptors: Sequence[int]) -> None:
    """Send a forked process its job, over the runtime's end of its status socket. Raises OSError."""
    memory = os.memfd_create("job", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(_encoder.encode(job))
        socket.send_fds(status, [b"J"], [memory, *descriptors])
    finally:
        os.close(memory)


def _serve(runtime: socket.socket, run_job: JobRunner) -> None:
    syscalls.set_parent_death_signal(signal.SIGKILL)
    syscalls.set_process_name("zygote", "bridgehead zygote")
    syscalls.set_dumpable(False)
    for number in (signal.SIGTERM, signal.SIGINT):  # sent to the process group, but handled by the runtime
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    close_other_descriptors(runtime.fileno())
    gc.disable()  # a collection would copy memory that is shared
    own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    while True:
        data, fds, _, _ = socket.recv_fds(runtime, _LARGEST_REQUEST, _MAX_DESCRIPTORS)
        if not data:
            return
        made: list[int] = []
        try:
            if data[:1] == _NAMESPACES:
                made = _make_namespaces(data[1:])
                reply = 0, 0
            elif data[:1] == _LOAD:
                _load(data[1:].decode())
                reply = 0, 0
            elif data[:1] == _REAP:
                reply = os.waitpid(_PID.unpack(data[1:])[0], os.WNOHANG)
            else:
                reply = _fork(data, fds, own_pid_namespace, run_job), 0
        except OSError as error:
            reply = _FAILED, error.errno or 0
        finally:
            for fd in fds:
                os.close(fd)
        socket.send_fds(runtime, [_REPLY.pack(*reply)], made)
        for fd in made:
            os.close(fd)


def _load(program: str) -> None:
    with contextlib.suppress(Exception):
        load_program(program)
    prepare_to_fork()


def _make_namespaces(request: bytes) -> list[int]:
    settings = msgspec.msgpack.decode(request[_IDS.size :], type=dict[str, str])
    id_base, count = _IDS.unpack(request[: _IDS.size])
    return user_namespaces.make(id_base, count, settings)


def _fork(request: bytes, fds: list[int], own_pid_namespace: int, run_job: JobRunner) -> int:
    """Fork with the children's PID namespace switched for this moment; a process's own cannot change."""
    where = request[:1]
    # Parts have threads and random numbers. Other programs are executed, or are stand-ins, which have neither: without
    # the handlers of modules they copy a tenth less memory until they serve.
    fork = os.fork if request[1:] == _FOR_PART else syscalls.fork_plainly
    if where == FORK_IN_NEW:
        syscalls.unshare(syscalls.CLONE_NEWPID)
    elif where == FORK_IN_GIVEN:
        syscalls.setns(fds[1], syscalls.CLONE_NEWPID)
    try:
        pid = fork()
        if pid == 0:
            _run_child(fds[0], run_job)
        return pid
    finally:
        if where != FORK_IN_NODE:
            syscalls.setns(own_pid_namespace, syscalls.CLONE_NEWPID)


def _run_child(status_fd: int, run_job: JobRunner) -> NoReturn:
    try:
        syscalls.set_parent_death_signal(signal.SIGKILL)
        close_other_descriptors(status_fd)
        os.set_inheritable(status_fd, False)  # closed by exec, by which the runtime knows that the program runs
        with socket.socket(fileno=status_fd) as status:
            job, descriptors = _receive_job(status)
            run_job(job, descriptors, status)
    except BaseException:  # noqa: BLE001 - a child must never return into the zygote's loop
        with contextlib.suppress(OSError):
            traceback.print_exc()
    finally:
        os._exit(127)


def _receive_job(status: socket.socket) -> tuple[Job, list[int]]:
    data, fds, _, _ = socket.recv_fds(status, 1, _MAX_DESCRIPTORS)
    if not data:
        os._exit(0)  # the runtime has closed the socket
    for fd in fds:
        os.set_inheritable(fd, False)
    with open(fds[0], "rb") as file:
        file.seek(0)
        job = _decoder.decode(file.read())
    return job, fds[1:]
