"""Calls in a forked child, for what changes the namespaces of its process."""

from __future__ import annotations

import os
from collections.abc import Callable

_MOST_BYTES = 4096  # of an error's text


class ChildCall:
    """A call in a forked process, which runs until `wait` returns. Raises OSError if it cannot fork."""

    def __init__(self, work: Callable[[], None]) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException as error:  # noqa: BLE001 - a forked child must not return into its parent's stack
                os.write(writer, (str(error) or type(error).__name__).encode()[:_MOST_BYTES])
            finally:
                os._exit(code)
        os.close(writer)
        self._reader = reader

    def wait(self) -> None:
        """Wait until the call has returned. Raises OSError with the error's text if it failed, or a signal ended it."""
        with open(self._reader, encoding="utf-8", errors="replace") as pipe:
            message = pipe.read()
        _, status = os.waitpid(self._pid, 0)
        if status != 0:
            raise OSError(message or f"the child ended with status {status}")


def call_in_child(work: Callable[[], None]) -> None:
    """Call `work` in a forked process. Raises OSError with the error's text if it fails, or if a signal ends it."""
    ChildCall(work).wait()
