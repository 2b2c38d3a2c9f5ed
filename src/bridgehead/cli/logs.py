"""Show the logs of the cluster's own parts: init, apiserver, controllers, kubelet-NODE, runtime-NODE.

Logs of pods, kube-proxy's too: kubectl logs.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from bridgehead.lab import registry
from bridgehead.lab.errors import LabError

from .lab_options import DEFAULT_NAME, Name, StateDir, reporting_errors

_LOOK_EVERY = 0.2


def command(
    part: Annotated[str | None, typer.Argument(help="One part; without it, all of them.")] = None,
    name: Name = DEFAULT_NAME,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more comes.")] = False,
    tail: Annotated[int, typer.Option(min=0, help="Only the last lines of each; 0 shows all.")] = 0,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        files = registry.find_files(name, state_dir)
        directory = files.log("init").parent
        every = _list_logs(directory)
        logs = [path for path in every if part in (None, path.stem)]
        if not logs:
            known = ", ".join(path.stem for path in every)
            raise LabError(f"no logs of {part!r}; there are: {known}" if known else f"no logs in {directory}")
        if following:
            try:
                follow(logs, until=lambda: not registry.is_running(files), tail=tail)
            except KeyboardInterrupt:
                raise typer.Exit(130) from None
            return
        for path in logs:
            lines = path.read_text("utf-8", errors="replace").splitlines()
            for line in lines[-tail:]:
                sys.stdout.write(_line(path, line, len(logs) > 1))


def _list_logs(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == ".log")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LabError(f"cannot read {directory}: {error.strerror}") from error


def follow(logs: Sequence[Path], *, until: Callable[[], bool], tail: int = 0) -> None:
    """Print what the files hold, or its last `tail` lines, and what is added, until `until` says it was all.

    Raises `BrokenPipeError` when nobody reads it any more, also while there is nothing to print.
    """
    opened = [(path, path.open("rb")) for path in logs]
    try:
        if tail:
            for _, file in opened:
                _skip_to_tail(file, tail)
        while True:
            ended = until()
            for path, file in opened:
                _copy_new_lines(path, file, len(opened) > 1)
            sys.stdout.flush()
            if ended:
                return
            _check_reader()
            time.sleep(_LOOK_EVERY)
    finally:
        for _, file in opened:
            file.close()


def _check_reader() -> None:
    try:
        output = sys.stdout.fileno()
    except OSError:  # it is no file
        return
    poll = select.poll()
    poll.register(output, 0)
    if any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _skip_to_tail(file: BinaryIO, lines: int) -> None:
    starts = deque([0], maxlen=lines + 1)  # of the last lines, and of the one that will come
    while file.readline():
        starts.append(file.tell())
    file.seek(starts[0])


def _copy_new_lines(path: Path, file: BinaryIO, named: bool) -> None:
    while True:
        position = file.tell()
        line = file.readline()
        if not line.endswith(b"\n"):
            file.seek(position)  # the writer is in the middle of it
            return
        sys.stdout.write(_line(path, line.decode("utf-8", "replace").rstrip("\n"), named))


def _line(path: Path, text: str, named: bool) -> str:
    return f"{path.stem}: {text}\n" if named else f"{text}\n"
