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
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Final

import typer

from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles

from .lab_options import Name, StateDir, find_lab, reporting_errors
from .watched_tree import WatchedTree

CONTEXT = {"allow_interspersed_args": False}

_QUIET: Final = 0.2  # seconds without a change before a run: a save of several files is one change
_BOUND: Final = 2.0  # seconds after which a run begins although files still change
_MOST_IN_A_ROW: Final = 3  # runs that changed files themselves


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


def _loop(tree: WatchedTree, argv: list[str], image: str, files: LabFiles) -> None:
    in_a_row = 0
    while True:
        _run(argv, image, files)
        changed = tree.read()
        in_a_row = in_a_row + 1 if changed else 0
        if not changed or in_a_row == _MOST_IN_A_ROW:
            if changed:
                _print(f"each run changes {_some(changed)}, which --ignore leaves out")
            _print("waiting for a change")
            in_a_row, changed = 0, tree.wait(_QUIET, _BOUND)
        _print(f"changed: {_some(changed)}")


def _run(argv: list[str], image: str, files: LabFiles) -> None:
    """Run the command and load its image. Errors are lines; the next change may correct them."""
    from bridgehead.client.errors import ClientError

    from .load import load

    environment = {**os.environ, "KUBECONFIG": str(files.kubeconfig)}
    try:
        process = subprocess.Popen(argv, env=environment)
    except OSError as error:
        raise LabError(f"{argv[0]}: {error.strerror}") from error
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    if code:
        _print(f"{argv[0]} ended with {code}")
    elif image:
        try:
            load(files, image, is_restarting=True)
            sys.stdout.flush()
        except (LabError, ClientError) as error:
            _print(str(error))


def _some(paths: Collection[str]) -> str:
    first = os.path.relpath(min(paths))
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _print(text: str) -> None:
    sys.stderr.write(f"bridgehead watch: {text}\n")
    sys.stderr.flush()
