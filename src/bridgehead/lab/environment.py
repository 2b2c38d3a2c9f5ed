"""Clears the environment that the lab inherits from its user: every process of the lab is a fork and would keep it in
memory."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection


def forget_environment(kept: Collection[str]) -> None:
    """Remove all variables but `kept` from this process, and from /proc/PID/environ, which shows the initial ones."""
    for name in list(os.environ):
        if name not in kept:
            del os.environ[name]
    for name, value in list(os.environ.items()):
        os.environ[name] = value  # set again, because the memory of the old strings is overwritten below
    # The fields from the 3rd on, after the name, which can contain any character: proc_pid_stat(5).
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
