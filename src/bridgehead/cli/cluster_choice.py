"""Choice of the cluster for commands that work with any cluster."""

from __future__ import annotations

import os
from pathlib import Path

from bridgehead.lab import state_directories
from bridgehead.lab.errors import LabError

from .lab_options import find_lab


def find_kubeconfig(kubeconfig: Path | None, name: str | None, state_dir: Path | None) -> tuple[Path, str | None]:
    """Return the kubeconfig and the context in it (None: its current context). Raises `LabError`.

    A lab that is named on the command line overrides the environment variable KUBECONFIG.
    """
    if kubeconfig is not None and not ((name or state_dir) and str(kubeconfig) == os.environ.get("KUBECONFIG")):
        if os.pathsep in str(kubeconfig) and not kubeconfig.exists():
            raise LabError(
                f"{kubeconfig} names several files, which kubectl merges: name one of them with --kubeconfig"
            )
        return kubeconfig, None
    files = find_lab(name, state_dir)
    return files.kubeconfig, state_directories.read_running(files).config.context
