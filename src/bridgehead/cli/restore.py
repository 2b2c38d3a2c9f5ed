"""Replace a stopped cluster's objects by those of a backup, FILE, which `bridgehead backup` has written.

The replaced store is kept beside the new one, with the suffix `.old`. A running cluster is refused. Revisions continue
above all earlier ones, so clients that still watch list again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bridgehead.lab import state_directories
from bridgehead.lab.errors import AlreadyRunning

from .lab_options import DEFAULT_NAME, Name, StateDir, options_of
from .parsing import path
from .store_copies import Progress, StoreOption, describe, lab_unless, reporting_store_errors, store_of


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=path, help="Backup to read.")],
    name: Name = None,
    state_dir: StateDir = None,
    store: StoreOption = "",
) -> None:
    from bridgehead.storage.copies import restore

    with reporting_store_errors():
        files = lab_unless(store, name, state_dir)
        target = store_of(files, store)
        if files and state_directories.is_running(files):
            stop = f"`bridgehead down{options_of(name, state_dir)}`"
            lab = state_directories.find_name(files, name or DEFAULT_NAME)
            raise AlreadyRunning(f"the lab {lab!r} is running: stop it first with {stop}")
        copied = restore(file, target, Progress("restore"))
        kept = f" The former store is {copied.kept}." if copied.kept else ""
        sys.stdout.write(f"Restored {target}: {describe(copied)}.{kept}\n")
