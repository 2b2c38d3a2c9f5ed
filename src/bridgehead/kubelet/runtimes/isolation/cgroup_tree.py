"""Operations on cgroups as directories: their files, the end of their processes, and removal.

Source: Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time

from .cgroup_files import parse_events

_KILL_SECONDS, _POLL_SECONDS = 2.0, 0.01


def members(directory: str) -> list[int]:
    """Return the PIDs in a cgroup, without those below it. Raises OSError."""
    return [int(word) for word in read(f"{directory}/cgroup.procs").split()]


def kill_all(directory: str) -> None:
    """Kill all processes in a cgroup and below it. Raises OSError."""
    try:
        write(f"{directory}/cgroup.kill", "1")  # Linux 5.14
    except FileNotFoundError:
        for path, _, _ in os.walk(directory):
            for pid in members(path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _await_empty(directory: str) -> bool:
    """Whether the last process of a cgroup has ended or ends within two seconds."""
    deadline = time.monotonic() + _KILL_SECONDS
    while parse_events(read(f"{directory}/cgroup.events"))["populated"]:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def remove_empty(directory: str) -> bool:
    """Remove a cgroup; True if it is gone already, False if it still has processes."""
    return not os.path.isdir(directory) or (_await_empty(directory) and remove(directory))


def remove(directory: str) -> bool:
    """Remove a cgroup and those below it; False if a process has not ended yet. Raises OSError."""
    for path, _, _ in os.walk(directory, topdown=False):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise
    return True


def read(path: str) -> str:
    """Raises OSError."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path: str, value: str) -> None:
    """Write in one call. Raises OSError with the path."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(fd)
