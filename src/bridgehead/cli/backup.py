"""Write a backup of a cluster's objects to FILE, also while the cluster runs.

The backup is of one moment, and is one file. Only its owner may read the file, because it contains Secrets. Objects
that are encrypted in the store are encrypted in the backup. An older backup in FILE is replaced when the new one is
complete.

`bridgehead restore FILE` reads it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .lab_options import Name, StateDir
from .parsing import path
from .store_copies import Progress, StoreOption, describe, lab_unless, reporting_store_errors, store_of


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=path, help="File to write.")],
    name: Name = None,
    state_dir: StateDir = None,
    store: StoreOption = "",
) -> None:
    from bridgehead.storage.copies import back_up

    with reporting_store_errors():
        copied = back_up(store_of(lab_unless(store, name, state_dir), store), file, Progress("backup"))
        sys.stdout.write(f"Wrote {file}: {describe(copied)}.\n")
