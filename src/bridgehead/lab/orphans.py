"""Finds labs that run although their state directory was deleted, by the lock file that their first process has open.

Such a lab ends by itself (`supervisor`); these functions serve commands that run before it has ended.
"""

from __future__ import annotations

import os
from pathlib import Path

from .plan import LabFiles

# The process name that `launch` sets.
_PROCESS = b"bridgehead-lab\n"


def find_orphan(files: LabFiles, proc: Path = Path("/proc")) -> int | None:
    """Return the PID of a lab's first process that was started in this directory before it was deleted, or None."""
    deleted = f"{files.lock} (deleted)"
    for pid in filter(str.isdigit, os.listdir(proc)):
        process = proc / pid
        try:
            if (process / "comm").read_bytes() != _PROCESS:
                continue
            if any(os.readlink(process / "fd" / fd) == deleted for fd in os.listdir(process / "fd")):
                return int(pid)
        except OSError:  # the process has ended, or belongs to another user
            continue
    return None
