"""Heartbeats of this process's event loop, to the process that started it and restarts it when it hangs.

A beat is a byte in a pipe, written by a timer of the loop: a loop that is blocked writes none. The lab's first process
installs the pipe in its parts; elsewhere nothing beats.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from collections.abc import Callable
from typing import Final

# Makes the process write the stacks of its threads to standard error, also while the loop is blocked.
SHOW_STACKS: Final = signal.SIGUSR2

_installed: tuple[int, float] | None = None


def install(pipe: int, seconds: float) -> None:
    """Beat to `pipe`, which never blocks, every so many seconds once `start` is called."""
    global _installed
    _installed = pipe, seconds
    faulthandler.register(SHOW_STACKS)


def start(call_later: Callable[[float, Callable[[], None]], object]) -> None:
    """Beat now and from now on, by the loop's `call_later(seconds, function)`. Call this when the process serves."""
    if _installed is None:
        return
    pipe, seconds = _installed

    def beat() -> None:
        with contextlib.suppress(OSError):  # full: the reader is stopped, and finds enough beats when it continues
            os.write(pipe, b".")
        call_later(seconds, beat)

    beat()
