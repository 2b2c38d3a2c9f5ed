"""Stop a cluster. The next `bridgehead up` continues with its state, unless it was started with --ephemeral."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bridgehead.lab import state_directories
from bridgehead.lab.errors import NotRunning
from bridgehead.lab.plan import LabFiles

from .lab_options import DEFAULT_NAME, Name, StateDir, find_lab, options_of, reporting_errors


def command(
    name: Name = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the cluster's state, too.")] = False,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        files = find_lab(name, state_dir)
        name = state_directories.find_name(files, name or DEFAULT_NAME)
        try:
            state_directories.stop(files)
            state = "stopped"
        except NotRunning:
            if not files.config.exists() or state_directories.is_running(files):  # none, or it only starts
                raise
            if not delete:
                raise NotRunning(_not_running(name, files, state_dir)) from None
            state = "not running"
        if delete and files.config.exists():
            state_directories.remove(files)
        kept = f"its state is in {files.root}" if files.config.exists() else "its state is gone"
        sys.stdout.write(f"The lab {name!r} is {state}; {kept}.\n")


def _not_running(name: str, files: LabFiles, state_dir: Path | None) -> str:
    again = options_of(name, state_dir)
    return (
        f"the lab {name!r} is not running; its state is in {files.root}:"
        f" `bridgehead up{again}` starts it again, `bridgehead down{again} --delete` removes it"
    )
