"""Stop a cluster. Its state is kept for the next `up`, unless it was started with --ephemeral."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bridgehead.lab import registry
from bridgehead.lab.errors import NotRunning

from .lab_options import DEFAULT_NAME, Name, StateDir, reporting_errors


def command(
    name: Name = DEFAULT_NAME,
    delete: Annotated[bool, typer.Option("--delete", help="Delete its state, too.")] = False,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        files = registry.find_files(name, state_dir)
        try:
            registry.stop(files)
            told = "stopped"
        except NotRunning:
            if not delete or not files.config.exists():
                raise
            told = "not running"
        if delete and files.config.exists():
            registry.remove(files)
        kept = f"its state is in {files.root}" if files.config.exists() else "its state is gone"
        sys.stdout.write(f"The lab {name!r} is {told}; {kept}.\n")
