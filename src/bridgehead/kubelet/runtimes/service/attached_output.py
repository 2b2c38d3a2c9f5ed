"""Copies of a container's output for `kubectl attach`."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Final

from .coroutines import Outcome

_PIPE_SIZE: Final = 1 << 20  # bytes


class Attachment:
    """A reader of a container's output, over pipes. A reader that does not keep up is detached; the container runs on.

    `ended` is the exit code for the session.
    """

    def __init__(self, *, separate_stderr: bool) -> None:
        self.ended: Outcome[int] = Outcome()
        self._writers: dict[str, int] = {}
        self._readers: list[int] = []
        for stream in ("stdout", "stderr") if separate_stderr else ("stdout",):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(writer, False)
            with contextlib.suppress(OSError):  # above an ordinary user's limit: the pipe keeps its default size
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
            self._writers[stream] = writer
            self._readers.append(reader)

    def take_readers(self) -> list[int]:
        """The descriptors to read from; they belong to the caller from now on."""
        readers, self._readers = self._readers, []
        return readers

    def write(self, data: bytes, stream: str) -> bool:
        """False when the reader has gone or does not keep up, or the attachment has ended."""
        if self.ended.is_known:
            return False
        try:
            return os.write(self._writers.get(stream, self._writers["stdout"]), data) == len(data)
        except OSError:
            return False

    def end(self, exit_code: int = 0) -> None:
        """End with the container's exit code, or with 0 while the container runs on. Does nothing after the end."""
        if self.ended.is_known:
            return
        for fd in (*self._writers.values(), *self._readers):
            os.close(fd)
        self.ended.set(exit_code)
