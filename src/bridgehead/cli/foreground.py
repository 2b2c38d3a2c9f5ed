"""Shared by commands that run until Ctrl-C or the end of their lab, and that may open a page in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator

from bridgehead.lab.plan import RunningLab


@contextlib.contextmanager
def until_end(lab: RunningLab | None) -> Iterator[asyncio.Event]:
    """Yield an event for the end of the command: SIGTERM, SIGHUP, or the end of the lab, if it is of this machine.

    Raises OSError if the lab has ended.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP
            loop.add_signal_handler(number, ended.set)
    if lab is None:
        yield ended
        return
    descriptor = os.pidfd_open(lab.init_pid)
    loop.add_reader(descriptor, ended.set)
    try:
        yield ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def has_desktop() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
