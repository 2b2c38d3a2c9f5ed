"""A program in a terminal of its own: keys are typed, and the screen is read as a user sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import pyte

_READ_BYTES = 1 << 16


class Terminal:
    """Use as `with`: the program is killed at the end of the block. `seconds` bounds each wait."""

    def __init__(
        self, argv: Sequence[object], env: Mapping[str, str], seconds: float, columns: int = 80, rows: int = 24
    ) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._seconds = seconds
        self._terminal, other = pty.openpty()
        self._set_size(columns, rows)
        # They would fix the size that a program assumes; pytest-xdist sets them.
        kept = {key: value for key, value in env.items() if key not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [str(argument) for argument in argv],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**kept, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(other)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    @property
    def text(self) -> str:
        """The lines of the screen, without spaces at their ends."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def shows(self, *texts: str, hides: Sequence[str] = ()) -> None:
        """Wait until all these texts are on the screen, and none of the others."""
        deadline = time.monotonic() + self._seconds
        while not (all(text in self.text for text in texts) and not any(text in self.text for text in hides)):
            is_late = time.monotonic() > deadline
            assert not is_late, f"the screen does not show {texts}, or shows one of {hides}:\n{self.text}"
            assert self._read(), f"the program has ended:\n{self.text}"

    def end(self) -> int:
        """Wait for the program's end and return its exit code."""
        deadline = time.monotonic() + self._seconds
        while self._read() and self.process.poll() is None:
            assert time.monotonic() < deadline, f"the program does not end:\n{self.text}"
        return self.process.wait(self._seconds)

    def _read(self) -> bool:
        """Read what the program writes, for a moment. Returns False after its end."""
        readable, _, _ = select.select([self._terminal], [], [], 0.1)
        if not readable:
            return True
        try:
            data = os.read(self._terminal, _READ_BYTES)
        except OSError:  # EIO: the last process has closed the other end
            return False
        self._stream.feed(data)
        return bool(data)
