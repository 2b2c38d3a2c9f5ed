"""Forgets the environment of who started the lab: every process in it is a fork, and would carry it in its memory."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection


def forget_environment(kept: Collection[str]) -> None:
    """Drop all variables of this process but `kept`, also where /proc/PID/environ shows what it began with."""
    for name in list(os.environ):
        if name not in kept:
            del os.environ[name]
    for name, value in list(os.environ.items()):
        os.environ[name] = value  # put anew, because what follows overwrites the place of the old strings
    # The fields after the name, which may contain anything, from the 3rd on: proc_pid_stat(5).
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
