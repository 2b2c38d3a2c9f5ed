"""Labs that run although their state directory was deleted: found by the lock that their first process has open.

Such a lab ends by itself (`supervisor`); this is for the commands that come before it has.
"""

from __future__ import annotations

import os
from pathlib import Path

from .plan import LabFiles

# As `launch` names the lab's first process.
_PROCESS = b"bridgehead-lab\n"


def find_orphan(files: LabFiles, proc: Path = Path("/proc")) -> int | None:
    """The first process of a lab that was started in this directory, when the directory was another one."""
    deleted = f"{files.lock} (deleted)"
    for pid in filter(str.isdigit, os.listdir(proc)):
        process = proc / pid
        try:
            if (process / "comm").read_bytes() != _PROCESS:
                continue
            if any(os.readlink(process / "fd" / fd) == deleted for fd in os.listdir(process / "fd")):
                return int(pid)
        except OSError:  # it has ended, or is another user's
            continue
    return None
