"""Processes forked from a server that has imported their modules, so that a test's process costs no start of Python.

The server is a process of its own without threads: a fork of pytest's process would copy locks that threads of it hold,
and the kernel makes no user namespace for a process with threads. It ends with the process that started it, and its
children end with it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from bridgehead.network import syscalls

_ROOT = Path(__file__).resolve().parents[1]
_REQUEST_BYTES = 1 << 20
_STREAMS = 3  # standard input, output and error, in this order


class Forked:
    """A child of the server. `pid` is its process, of which this one is not the parent."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self._status = status  # from which its exit status can be read, as text

    def wait(self, timeout: float) -> int:
        """Return the exit code, as `subprocess` does; to be called once. Kills it and raises TimeoutExpired."""
        if not select.select([self._status], [], [], timeout)[0]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        status = os.read(self._status, 16)
        os.close(self._status)
        return int(status or -signal.SIGKILL)  # nothing: the server has ended, and its children with it


def fork(function: str, *arguments: Any, streams: Sequence[int], modules: Sequence[str] = ()) -> Forked:
    """Call `function`, as "module:name", in a new process with these arguments, fit for JSON.

    `streams` are descriptors for its standard input, output and error. `modules` are imported before, as the function's
    is, once for all processes. The exit code is 0, the function's SystemExit, or 1 after an exception, whose traceback
    is on standard error.
    """
    status, its_status = os.pipe()
    request = json.dumps([function, arguments, modules, dict(os.environ)]).encode()
    connection = _connect()
    try:
        socket.send_fds(connection, [request], [*streams, its_status])
    finally:
        os.close(its_status)
    return Forked(int(connection.recv(_REQUEST_BYTES)), status)


@functools.cache
def _connect() -> socket.socket:
    """Start the server, once, and return the socket that leads to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
    path = os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", str(theirs.fileno())],
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": path},
            pass_fds=(theirs.fileno(),),
        )
    atexit.register(_stop, ours, server)
    return ours


def _stop(connection: socket.socket, server: subprocess.Popen[bytes]) -> None:
    connection.close()
    server.wait()


# --- The server ----------------------------------------------------------------------------------------------


def _serve(connection: socket.socket) -> None:
    """Fork for each request until the other end is closed, and report how the children end."""
    children: dict[int, tuple[int, int]] = {}  # by pidfd: the pid and the descriptor for its status
    while True:
        for ready in select.select([connection.fileno(), *children], [], [])[0]:
            if ready == connection.fileno():
                request, descriptors, *_ = socket.recv_fds(connection, _REQUEST_BYTES, _STREAMS + 1)
                if not request:
                    return
                pid = _fork(connection, request, descriptors[:_STREAMS])
                for stream in descriptors[:_STREAMS]:
                    os.close(stream)
                children[os.pidfd_open(pid)] = pid, descriptors[_STREAMS]
                connection.send(str(pid).encode())
            else:
                pid, status = children.pop(ready)
                os.close(ready)
                os.write(status, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
                os.close(status)


def _fork(connection: socket.socket, request: bytes, streams: Sequence[int]) -> int:
    function, arguments, modules, environment = json.loads(request)
    module, _, name = function.partition(":")
    # Here, so that the next child has them. An error is the child's, which meets it again.
    with contextlib.suppress(Exception):
        for needed in (module, *modules):
            importlib.import_module(needed)
    gc.freeze()  # the child's collections do not copy the pages of what is shared
    server, pid = os.getpid(), os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(len(streams), os.sysconf("SC_OPEN_MAX"))  # the server's own, and those of other children
        end_with(server)
        getattr(importlib.import_module(module), name)(*arguments)
        code = 0
    except SystemExit as error:
        code = _report_exit(error)
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _report_exit(error: SystemExit) -> int:
    if isinstance(error.code, str):
        sys.stderr.write(f"{error.code}\n")
        return 1
    return error.code or 0


def end_with(parent: int) -> None:
    """End with the parent. A change of credentials, as by a new user namespace, resets this."""
    syscalls.set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _main(descriptor: int) -> NoReturn:
    with socket.socket(fileno=descriptor) as connection:
        _serve(connection)
    os._exit(0)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
