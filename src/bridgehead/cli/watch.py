"""Run a command at once, and again whenever files change; with --image, load what it built and restart what uses it.

The command runs in this directory, with KUBECONFIG set to the cluster's, one run at a time: changes during a run lead
to one more run. Files of version control, of editors and of usual caches do not count. Ctrl-C ends it.

Docs: docs/how-to/development-loop.md.

Examples:

    bridgehead watch --image shop/api:1 -- docker build -t shop/api:1 .
    bridgehead watch --path src --path deploy -- kubectl apply -k deploy
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Set
from pathlib import Path
from typing import Annotated, Final

import typer

from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles

from .exit_codes import describe
from .lab_options import Name, StateDir, find_lab, reporting_errors
from .output import OutputFailed
from .process_tree import descendants
from .watched_tree import WatchedTree

CONTEXT = {"allow_interspersed_args": False}

_QUIET: Final = 0.2  # seconds without a change before a run: a save of several files is one change
_BOUND: Final = 2.0  # seconds after which a run begins although files still change
_MOST_IN_A_ROW: Final = 3  # runs that changed the same files
_MOST_WITH_ANY: Final = 10  # runs in a row with changes at all: a command may write files of new names each time


def command(
    argv: Annotated[
        list[str], typer.Argument(metavar="-- CMD...", show_default=False, help="The command and its arguments.")
    ],
    path: Annotated[
        list[Path] | None,
        typer.Option("--path", show_default=False, help="Directory or file to watch. Default: this directory."),
    ] = None,
    image: Annotated[
        str,
        typer.Option("--image", help="Load this image after each run that succeeds, as `bridgehead load --restart`."),
    ] = "",
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", show_default=False, help="Pattern of files and directories that do not count."),
    ] = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with reporting_errors(), contextlib.suppress(KeyboardInterrupt):
        files = find_lab(name, state_dir)
        with WatchedTree(path or [Path()], ignore or []) as tree:
            _loop(tree, argv, image, files)


class Row:
    """Runs, each of which began because of changes during the one before."""

    def __init__(self) -> None:
        self._runs = 0
        self.common: Set[str] = frozenset()  # the paths that changed during every run

    def is_endless(self, changed: Set[str]) -> bool:
        """Add a run with what changed during it. Return whether the runs make these changes, not the user.

        They do if the same paths change in some runs, and nothing else does; another path is an edit, for which one
        more run is due.
        """
        self._runs += 1
        self.common = changed & self.common if self._runs > 1 else changed
        if self._runs >= _MOST_WITH_ANY:
            return True
        return self._runs >= _MOST_IN_A_ROW and changed == self.common


def _loop(tree: WatchedTree, argv: list[str], image: str, files: LabFiles) -> None:
    row, is_first = Row(), True
    while True:
        try:
            _run(argv, image, files)
        except _NotStarted as error:
            if is_first:
                raise
            _print(error)  # a script that is just being saved
        is_first = False
        changed = tree.read()
        if not changed or row.is_endless(changed):
            if changed:
                _print(f"each run changes {_some(row.common or changed)}, which --ignore leaves out")
            _print("waiting for a change")
            row, changed = Row(), tree.wait(_QUIET, _BOUND)
        _print(f"changed: {_some(changed)}")


class _NotStarted(LabError):
    pass


def _run(argv: list[str], image: str, files: LabFiles) -> None:
    """Run the command and load its image. Errors are lines; the next change may correct them.

    Raises `_NotStarted` for a command that cannot be executed.
    """
    environment = {**os.environ, "KUBECONFIG": str(files.kubeconfig)}
    try:
        process = subprocess.Popen(argv, env=environment)
    except OSError as error:
        raise _NotStarted(f"{argv[0]}: {error.strerror}") from error
    try:
        code = process.wait()
    except KeyboardInterrupt:
        # Not a process group of its own: it would not have the terminal, where `sudo` asks for a password.
        for pid in (process.pid, *descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        process.wait()
        raise
    if code:
        _print(f"{argv[0]} ended with {code}")
    elif image:
        _load(files, image)


def _load(files: LabFiles, image: str) -> None:
    from bridgehead.client.errors import ClientError

    from .load import load

    try:
        load(files, image, is_restarting=True)
        sys.stdout.flush()
    except OutputFailed:
        raise
    except (LabError, ClientError, OSError) as error:
        _print(error)


def _some(paths: Collection[str]) -> str:
    first = os.path.relpath(min(paths))
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _print(text: object) -> None:
    sys.stderr.write(f"bridgehead watch: {describe(text)}\n")
    sys.stderr.flush()
