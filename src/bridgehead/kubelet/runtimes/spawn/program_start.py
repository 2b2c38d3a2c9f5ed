"""The last steps of a forked process before its program runs, and its status messages to the runtime.

The child has one end of a sequenced-packet socket that exec closes. The end of the stream means that the program runs;
a `FAILED` message has the reason, one line, why it does not, and so has a `REFUSED` one where an image lacks something;
a `USER` message has the user and groups with which it will run, as JSON; messages of the other kinds carry a
descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import signal
import socket
import struct
import sys
import termios
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

from bridgehead.network.uapi.ioctls import TIOCGPTPEER, TIOCSPTLCK
from bridgehead.standins import standin

FAILED: Final = b"F"
REFUSED: Final = b"R"
USER: Final = b"U"
TERMINATION_LOG: Final = b"L"
TERMINAL: Final = b"T"
MOUNT_NAMESPACE: Final = b"M"
PID_NAMESPACE: Final = b"P"

_LONGEST_REASON: Final = 4096  # bytes
_DESCRIPTORS_END: Final = 1 << 20  # above every descriptor number

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A built-in program. It calls its argument once it serves and handles signals, and returns its exit code.
BuiltIn = Callable[[Callable[[], None]], int]


class SetupFailure(Exception):
    """The program could not be started; the message is one line for the kubelet."""


def report(status: socket.socket, kind: bytes, text: str = "", descriptor: int | None = None) -> None:
    """Send a message to the runtime. Errors are ignored: without the runtime the child ends, too."""
    with contextlib.suppress(OSError):
        if descriptor is None:
            status.send(kind + text.encode("utf-8", "replace")[: None if kind == USER else _LONGEST_REASON])
        else:
            socket.send_fds(status, [kind], [descriptor])


def open_terminal(status: socket.socket) -> int:
    """Open a pseudo-terminal of the container's own devpts. Returns the slave, which becomes the controlling terminal.

    The master is sent to the runtime. The process must be the leader of its session.
    """
    master = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
    slave = fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    report(status, TERMINAL, descriptor=master)
    os.close(master)
    return slave


def reset_signals() -> None:
    """Set all signals to their defaults, as a program expects them: no handlers, nothing blocked or ignored."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def close_other_descriptors(kept: int) -> None:
    """Close all descriptors but `kept` and the standard streams."""
    os.closerange(3, kept)
    os.closerange(kept + 1, _DESCRIPTORS_END)


def redirect_streams(stdin: int, stdout: int, stderr: int) -> None:
    """Make the descriptors the standard streams; all three may be the same."""
    # Duplicated above 2 first, so that no dup2 closes one that is still needed.
    moved = [os.dup(fd) for fd in (stdin, stdout, stderr)]
    while any(fd < 3 for fd in moved):
        moved = [os.dup(fd) if fd < 3 else fd for fd in moved]
    for number, fd in enumerate(moved):
        os.dup2(fd, number, inheritable=True)
    for fd in set(moved):
        os.close(fd)


def find_program(name: str, environment: dict[str, str], working_dir: str) -> str:
    """The path of a program. Raises `SetupFailure` with the error messages of the OCI runtimes."""
    if not name:
        raise SetupFailure("no command specified")
    if "/" in name:
        path = name if name.startswith("/") else os.path.join(working_dir, name)
        if not os.path.exists(path):
            path = _find_tool(path) or path
        if not os.path.exists(path):
            raise SetupFailure(f'exec: "{name}": stat {name}: no such file or directory')
        if os.path.isdir(path):
            raise SetupFailure(f'exec: "{name}": is a directory')
        if not os.access(path, os.X_OK):
            raise SetupFailure(f'exec: "{name}": permission denied')
        return path
    for directory in environment.get("PATH", DEFAULT_PATH).split(":"):
        path = os.path.join(directory or ".", name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise SetupFailure(f'exec: "{name}": executable file not found in $PATH')


def _find_tool(path: str) -> str:
    """The applet of the host's BusyBox for a path such as /bin/sysctl, which only the image of a stand-in has."""
    directory, name = os.path.split(path)
    if directory in DEFAULT_PATH.split(":"):
        for tools in (standin.BUSYBOX_TOOLS, standin.NETWORK_TOOLS):
            if os.access(os.path.join(tools, name), os.X_OK):
                return os.path.join(tools, name)
    return ""


def execute(argv: tuple[str, ...], environment: dict[str, str], working_dir: str) -> NoReturn:
    """Execute the program. Raises `SetupFailure`."""
    path = find_program(argv[0] if argv else "", environment, working_dir)
    try:
        os.execve(path, argv, environment)
    except OSError as error:
        reason = "exec format error" if error.errno == errno.ENOEXEC else (error.strerror or "").lower()
        raise SetupFailure(f"exec {path}: {reason}") from error


def run_function(function: BuiltIn, status: socket.socket) -> NoReturn:
    """Run a built-in program in this process: drop what exec would have dropped, and exit with its exit code."""
    close_other_descriptors(status.fileno())
    # The zygote's objects are never freed: the collector must not visit them, which would copy their pages.
    gc.freeze()
    gc.enable()
    code = 1
    try:
        code = function(status.close)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else (0 if error.code is None else 1)
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)
