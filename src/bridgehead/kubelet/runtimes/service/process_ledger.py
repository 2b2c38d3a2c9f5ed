"""A record on disk of the containers' first processes, by PID and start time, for the case that the runtime is killed.

Containers ask the kernel to end with their runtime (PR_SET_PDEATHSIG), but a program that changes its user resets
that. The runtime therefore also records what it starts, and the next runtime kills what still runs. Namespaces, mounts
and links need no record: the kernel removes them with their last process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import Final

_KILL_ROUNDS: Final = 20
_KILL_SECONDS: Final = 5.0  # until killed processes have ended


class ProcessLedger:
    """A directory with a file for each process: its name is the PID, its content the start time."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        os.makedirs(directory, exist_ok=True)

    def add(self, pid: int) -> None:
        """Record a process. Errors are ignored: without the record a killed runtime may leave the process running."""
        started = read_start_time(pid)
        if started is not None:
            with contextlib.suppress(OSError), open(self._file(pid), "w", encoding="ascii") as file:
                file.write(str(started))

    def remove(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._file(pid))

    def end_all(self) -> int:
        """Kill the recorded processes that still run and wait until they have ended; returns their number."""
        fds = []
        for name in os.listdir(self._directory):
            if name.isdigit():
                fds += self._end(int(name))
                self.remove(int(name))
        for fd in fds:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll(_KILL_SECONDS * 1000)
            os.close(fd)
        return len(fds)

    def _end(self, pid: int) -> list[int]:
        try:
            with open(self._file(pid), encoding="ascii") as file:
                recorded = int(file.read())
            fd = os.pidfd_open(pid)
        except (OSError, ValueError):
            return []
        # Read after the descriptor was opened: the PID cannot be given to another process in between.
        if read_start_time(pid) != recorded:
            os.close(fd)
            return []
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        return [fd]

    def _file(self, pid: int) -> str:
        return os.path.join(self._directory, str(pid))


def kill_members(mount_namespace: int) -> None:
    """Kill all processes in a mount namespace, given by its descriptor.

    For containers without a PID namespace of their own, whose processes outlive the first one. Repeated until none is
    left, because a process may fork meanwhile.
    """
    wanted = os.fstat(mount_namespace).st_ino
    for _ in range(_KILL_ROUNDS):
        members = []
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.stat(f"/proc/{name}/ns/mnt").st_ino == wanted:
                    members.append(int(name))
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def read_start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process (proc(5), field 22 of stat); None when there is no such
    process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    return int(text.rpartition(b")")[2].split()[19])
