"""Questions about processes, from /proc. Imports nothing else: the failure detector asks them, too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_STOPPED_STATES = "tT"  # proc(5): stopped by a signal, or by a debugger


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The state follows the name, which may contain anything.
            state = file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return False  # it has ended
    return state in _STOPPED_STATES


def users_of(directory: str) -> Iterator[int]:
    """Yield the other processes that work in a directory, or whose command lines name files below it.

    Processes that have ended have no command line any more.
    """
    needle = f"{directory}/".encode()
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            with open(f"/proc/{name}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
            if any(argument.startswith(needle) for argument in arguments) or _works_in(name, needle):
                yield int(name)


def _works_in(name: str, needle: bytes) -> bool:
    return (os.readlink(f"/proc/{name}/cwd").encode() + b"/").startswith(needle)
