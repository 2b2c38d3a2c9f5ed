"""Copies of a container's output for `kubectl attach`."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from typing import Final

_PIPE_SIZE: Final = 1 << 20  # bytes


class Attachment:
    """A reader of a container's output, over pipes. A reader that does not keep up is detached; the container runs
    on."""

    def __init__(
        self, detach: Callable[[Attachment], bool], on_end: Callable[[int], None], *, separate_stderr: bool
    ) -> None:
        """`detach` takes the attachment from its task, False if it was not attached any more. `on_end` gets the exit
        code for the session."""
        self.on_end = on_end
        self._detach = detach
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
        """False when the reader has gone or does not keep up."""
        try:
            return os.write(self._writers.get(stream, self._writers["stdout"]), data) == len(data)
        except OSError:
            return False

    def end(self) -> None:
        """Detach from a container that runs on. Does nothing after the end."""
        if self._detach(self):
            self.on_end(0)

    def close(self) -> None:
        for fd in (*self._writers.values(), *self._readers):
            os.close(fd)
