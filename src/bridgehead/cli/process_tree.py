"""Processes that a process has started, by proc(5)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children and so on, as they are now.

    Empty for a kernel without /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN).
    """
    found: list[int] = []
    left = [pid]
    while left:
        threads = Path(f"/proc/{left.pop()}/task")
        with contextlib.suppress(OSError):  # a process has ended
            for thread in os.listdir(threads):
                children = [int(child) for child in (threads / thread / "children").read_text("ascii").split()]
                found += children
                left += children
    return found
