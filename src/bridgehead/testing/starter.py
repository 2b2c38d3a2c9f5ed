"""Program that starts a lab, and stops it when the tests' process ends, however it ends.

    python -m bridgehead.testing.starter TESTS READY NAME [OPTION...]

TESTS is the descriptor of the tests' process (pidfd_open(2)), READY that of a pipe for one byte once the lab is ready;
the options are of `bridgehead up`. The program runs in a session of its own, so that Ctrl-C, a closed terminal and a
killed process group leave it the time to stop the lab.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Sequence

from bridgehead import cli
from bridgehead.lab import state_directories
from bridgehead.lab.errors import AlreadyRunning, LabError, NotRunning
from bridgehead.lab.plan import LabFiles

_OPTIONS = ("--detach", "--ephemeral", "--offline", "--no-balancer")


def main(arguments: Sequence[str]) -> None:
    tests, ready, name = int(arguments[0]), int(arguments[1]), arguments[2]
    for descriptor in (tests, ready):
        os.set_inheritable(descriptor, False)
    files = state_directories.find_files(name, None)
    try:
        cli.main(["up", "--name", name, *_OPTIONS, *arguments[3:]])
    except SystemExit as end:
        if end.code:
            raise
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # `up` has replaced it
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # the tests' process has ended
        os.write(ready, b"!")
    os.close(ready)
    os.chdir("/")
    select.select([tests], [], [])
    stop(files)


def stop(files: LabFiles) -> None:
    """Stop a lab and remove its state, unless that has been done. Raises `LabError`."""
    with contextlib.suppress(NotRunning):
        state_directories.stop(files)
    if files.config.exists():  # the lab had ended by itself
        with contextlib.suppress(AlreadyRunning):
            state_directories.remove(files)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LabError as error:
        sys.exit(f"bridgehead: {error}")
