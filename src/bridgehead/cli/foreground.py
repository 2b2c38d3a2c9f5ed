"""Shared by commands that serve a port until Ctrl-C or the end of their lab, and that may open a page in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import typer

from bridgehead.lab import enter
from bridgehead.lab.plan import RunningLab


def port_option(first: int) -> Any:
    """Return the option for a port of this machine's loopback, which is `first` by default."""
    help_ = f"Port on 127.0.0.1. Default: {first} if it is free, else any."
    return typer.Option(min=1, max=65535, show_default=False, help=help_)


def run_in_lab(lab: RunningLab, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Enter the lab's network and run `work()`. Sockets that exist stay this machine's; new connections are in the lab.

    The process must have one thread only, and is in the lab's network afterwards. Raises OSError.
    """
    import uvloop

    enter.enter_network(lab, enter.network_path(lab, None))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


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
