"""Print the kubeconfig of a cluster, or its path with --path.

A stopped cluster keeps its kubeconfig, so --path works before the next `bridgehead up`, too.

Example:

    export KUBECONFIG=$(bridgehead kubeconfig --path)
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bridgehead.lab import state_directories

from .lab_options import Name, StateDir, find_lab, reporting_errors


def command(
    name: Name = None,
    path: Annotated[
        bool,
        typer.Option("--path", help="Print the path of the file instead of its content."),
    ] = False,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        files = find_lab(name, state_dir)
        if not path or not files.kubeconfig.exists():
            state_directories.read_running(files)
        sys.stdout.write(f"{files.kubeconfig}\n" if path else files.kubeconfig.read_text("utf-8"))
