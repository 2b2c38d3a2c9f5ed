"""Show the logs of the cluster's own parts: init, apiserver, controllers, etcd, kubelet-NODE, runtime-NODE.

kube-proxy and the cluster DNS run in pods, whose logs kubectl shows:

    kubectl -n kube-system logs daemonset/kube-proxy
    kubectl -n kube-system logs deployment/coredns
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

from bridgehead.lab import state_directories
from bridgehead.lab.errors import LabError
from bridgehead.suggestions import did_you_mean

from .lab_options import Name, StateDir, find_lab, reporting_errors

_LOOK_EVERY = 0.2

# Parts that run in pods: the name that a user may ask for -> the workload in kube-system.
_IN_PODS = {
    "proxy": "daemonset/kube-proxy",
    "kube-proxy": "daemonset/kube-proxy",
    "dns": "deployment/coredns",
    "kube-dns": "deployment/coredns",
    "coredns": "deployment/coredns",
    "bridgehead-dns": "deployment/coredns",
}


def command(
    part: Annotated[
        str | None,
        typer.Argument(
            metavar="[PART]",
            help="Name of one part, or `kubelet` or `runtime` for those of all nodes. Default: all parts.",
        ),
    ] = None,
    name: Name = None,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines as they are written.")] = False,
    tail: Annotated[int, typer.Option(min=0, help="Number of last lines to show of each part. 0: all lines.")] = 0,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        files = find_lab(name, state_dir)
        directory = files.log("init").parent
        every = _list_logs(directory)
        if not (every or files.config.exists()):
            raise state_directories.no_such_lab(files)
        logs = [path for path in every if part is None or path.stem == part or path.stem.startswith(f"{part}-")]
        if not logs:
            raise LabError(_no_logs(part, [path.stem for path in every], directory))
        if following:
            try:
                follow(logs, until=lambda: not state_directories.is_running(files), tail=tail)
            except KeyboardInterrupt:
                raise typer.Exit(130) from None
            return
        for path in logs:
            lines = path.read_text("utf-8", errors="replace").splitlines()
            for line in lines[-tail:]:
                sys.stdout.write(_line(path, line, len(logs) > 1))


def _no_logs(part: str | None, parts: Sequence[str], directory: Path) -> str:
    if not parts:
        return f"no logs in {directory}"
    if part in _IN_PODS:
        return f"{part} runs in pods; their logs: kubectl -n kube-system logs {_IN_PODS[part]}"
    suggestion = did_you_mean(part or "", (*parts, *_IN_PODS))
    return f"no logs of {part!r}; there are: {', '.join(parts)}{suggestion}"


def _list_logs(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == ".log")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LabError(f"cannot read {directory}: {error.strerror}") from error


def follow(logs: Sequence[Path], *, until: Callable[[], bool], tail: int = 0) -> None:
    """Print the files, or their last `tail` lines, and each line that is appended, until `until` returns True.

    Raises `BrokenPipeError` when the reader of standard output has gone, even while there is nothing to print.
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
    except OSError:  # standard output is no file
        return
    poll = select.poll()
    poll.register(output, 0)
    if any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0)):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _skip_to_tail(file: BinaryIO, lines: int) -> None:
    starts = deque([0], maxlen=lines + 1)  # offsets of the last lines and of the next one
    while file.readline():
        starts.append(file.tell())
    file.seek(starts[0])


def _copy_new_lines(path: Path, file: BinaryIO, named: bool) -> None:
    while True:
        position = file.tell()
        line = file.readline()
        if not line.endswith(b"\n"):
            file.seek(position)  # the writer has not finished the line
            return
        sys.stdout.write(_line(path, line.decode("utf-8", "replace").rstrip("\n"), named))


def _line(path: Path, text: str, named: bool) -> str:
    return f"{path.stem}: {text}\n" if named else f"{text}\n"
