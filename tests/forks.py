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
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from bridgehead.network import syscalls

_ROOT = Path(__file__).resolve().parents[1]
_REQUEST_BYTES = 1 << 20
_MOST_STREAMS = 8
_TITLE = "-" * 150  # room in the command line for the titles that children give themselves (`set_process_name`)
# Modules that a command imports only when it runs.
_LOADED_LATE = {
    "apiserver": ("bridgehead.apiserver.serve", "bridgehead.storage.sqlite", "uvloop"),
    "backup": ("bridgehead.apiserver.stores", "bridgehead.apiserver.storedobjects", "bridgehead.storage.backups"),
    "restore": ("bridgehead.apiserver.stores", "bridgehead.apiserver.storedobjects", "bridgehead.storage.backups"),
    "up": ("tests.lab_modules",),
}


class Forked:
    """A child of the server, of which this process is not the parent. `wait` for it."""

    def __init__(self, pid: int, process: int, status: int) -> None:
        self.pid = pid
        self._process = process  # a pidfd
        self._status = status  # from which its exit code can be read, as text

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, number)

    def is_running(self) -> bool:
        """Whether the process has not ended yet. Not to be called after `wait`."""
        return not select.select([self._status], [], [], 0)[0]

    def wait(self, timeout: float) -> int:
        """Return the exit code, as `subprocess` does; to be called once. Kills it and raises TimeoutExpired."""
        try:
            if not select.select([self._status], [], [], timeout)[0]:
                self.send_signal(signal.SIGKILL)
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            return int(os.read(self._status, 16) or -signal.SIGKILL)  # the server ended, and its children with it
        finally:
            os.close(self._status)
            os.close(self._process)


def fork(function: str, *arguments: Any, streams: Sequence[int], modules: Sequence[str] = ()) -> Forked:
    """Call `function`, as "module:name", in a new process with these arguments, fit for JSON.

    `streams` become its descriptors 0 (standard input), 1, 2 and so on. `modules` are imported before, as the
    function's is, once for all processes. The exit code is 0, the function's SystemExit, or 1 after an exception, whose
    traceback is on standard error.
    """
    status, its_status = os.pipe()
    request = json.dumps([function, arguments, modules, dict(os.environ)]).encode()
    connection = _connect()
    try:
        socket.send_fds(connection, [request], [its_status, *streams])
    finally:
        os.close(its_status)
    pid, (process,), *_ = socket.recv_fds(connection, _REQUEST_BYTES, 1)
    return Forked(int(pid), process, status)


def fork_bridgehead(*arguments: object, streams: Sequence[int]) -> Forked:
    """Run a `bridgehead` command in a new process; its name is the first argument."""
    line = [str(argument) for argument in arguments]
    modules = (f"bridgehead.cli.{line[0]}", *_LOADED_LATE.get(line[0], ()))
    return fork("bridgehead.cli:main", line, streams=streams, modules=modules)


def run_bridgehead(*arguments: object, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a `bridgehead` command in a new process to its end."""
    with (
        open(os.devnull, encoding="ascii") as nothing,
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+") as errors,
    ):
        streams = (nothing.fileno(), output.fileno(), errors.fileno())
        code = fork_bridgehead(*arguments, streams=streams).wait(timeout)
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([str(each) for each in arguments], code, output.read(), errors.read())


@functools.cache
def _connect() -> socket.socket:
    """Start the server, once, and return the socket that leads to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
    path = os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.forks", str(theirs.fileno()), _TITLE],
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": path},
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C is for pytest, whose end ends the server
        )
    atexit.register(_stop, ours, server)
    return ours


def _stop(connection: socket.socket, server: subprocess.Popen[bytes]) -> None:
    connection.close()
    server.wait()


# --- The server ----------------------------------------------------------------------------------------------


def _serve(connection: socket.socket) -> None:
    """Fork for each request until the other end is closed, and report how the children end."""
    gc.disable()
    children: dict[int, tuple[int, int]] = {}  # by pidfd: the pid and the descriptor for its exit code
    while True:
        for ready in select.select([connection.fileno(), *children], [], [])[0]:
            if ready == connection.fileno():
                request, descriptors, *_ = socket.recv_fds(connection, _REQUEST_BYTES, 1 + _MOST_STREAMS)
                if not request:
                    return
                status, *streams = descriptors
                pid = _fork(request, streams)
                for stream in streams:
                    os.close(stream)
                process = os.pidfd_open(pid)
                children[process] = pid, status
                socket.send_fds(connection, [str(pid).encode()], [process])
            else:
                pid, status = children.pop(ready)
                os.close(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(BrokenPipeError):  # nobody waits for this child any more
                    os.write(status, str(code).encode())
                os.close(status)


def _fork(request: bytes, streams: Sequence[int]) -> int:
    function, arguments, modules, environment = json.loads(request)
    module, _, name = function.partition(":")
    # Here, so that the next child has them. An error is the child's, which meets it again.
    with contextlib.suppress(Exception):
        for needed in (module, *modules):
            importlib.import_module(needed)
    gc.freeze()  # a collection would write to all objects of the modules, and so copy their memory into each child
    server, pid = os.getpid(), os.fork()
    if pid:
        return pid
    code = 1
    try:
        gc.enable()
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
