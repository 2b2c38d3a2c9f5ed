"""Watch over a child process that sends heartbeats: kills it when it hangs, so that its parent starts another one."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import time
from pathlib import Path
from typing import Final, Self

from bridgehead import heartbeat

from .liveness import BEATS, Pulse, ThreadUse

log = logging.getLogger(__name__)

SILENT_SECONDS: Final = 30.0
# Time that a process that hangs has to write its stacks to its log, before it is killed.
_STACKS_SECONDS: Final = 0.5
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_FIRST_DESCRIPTOR: Final = 10  # above those that a part gets by number


class PartWatch:
    """The watch over a child; made before the fork, because the child needs the pipe. Raises OSError."""

    def __init__(self, name: str, silent_seconds: float = SILENT_SECONDS) -> None:
        self._name = name
        self._interval = silent_seconds / BEATS
        self._pulse = Pulse(silent_seconds, time.monotonic())
        self._pid = 0
        self._kill_at = 0.0  # monotonic; 0: the process does not hang
        self.hang = ""  # why the process is killed
        self.pipe, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def watch(self, pid: int) -> None:
        """Watch the child. For the parent."""
        os.close(self._writer)
        self._pid = pid

    def keep(self) -> int:
        """Return the descriptor that the child must not close. For the child, before `install`."""
        self._writer = fcntl.fcntl(self._writer, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
        return self._writer

    def install(self) -> None:
        """Send heartbeats once the event loop runs. For the child, after it has forked what shall send none."""
        heartbeat.install(self._writer, self._interval)

    def close(self) -> None:
        """Close the parent's end, when the child has ended or could not be forked."""
        os.close(self.pipe)
        if not self._pid:
            os.close(self._writer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seconds_to_check(self) -> float:
        """Return the seconds after which `check` is due, if no heartbeat comes before."""
        return max(0.0, self._kill_at - time.monotonic()) if self._kill_at else self._interval

    def check(self, *, has_beat: bool) -> None:
        """Note whether the pipe was readable, and kill the process if it hangs."""
        now = time.monotonic()
        self._pulse.look(now)
        if self._kill_at:
            if self._kill_at <= now:
                self._signal(signal.SIGKILL)
                self._kill_at = now + self._interval
        elif has_beat:
            self._pulse.receive(_read_use(self._pid))
        elif self._pulse.is_silent and (hang := self._pulse.describe_hang(_read_use(self._pid))):
            self.hang = hang
            log.warning("%s hangs: %s; killing it", self._name, hang)
            self._signal(heartbeat.SHOW_STACKS)
            self._kill_at = now + _STACKS_SECONDS

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)


def _read_use(pid: int) -> ThreadUse | None:
    """Read what the main thread of a process does; None when it has ended."""
    try:
        content = Path(f"/proc/{pid}/task/{pid}/stat").read_text(encoding="latin-1")
    except OSError:
        return None
    fields = content.rpartition(")")[2].split()
    return ThreadUse(fields[0], (int(fields[11]) + int(fields[12])) / _TICKS)
