"""Mounts of /proc and /sys that show the namespaces of the process that mounts them.

In a user namespace the kernel allows both only if an instance of each can be seen whole, without mounts on parts of it
as engines of containers make them, and as writable as the new one (mount_too_revealing in Linux' fs/namespace.c).
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from bridgehead.network import syscalls

_HARDENED: Final = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC


def mount_proc(target: str) -> None:
    """Mount /proc of this PID namespace. Raises OSError."""
    syscalls.mount("proc", target, "proc", _HARDENED)


def mount_sysfs(target: str) -> None:
    """Mount /sys of this network namespace, read-only where the kernel refuses it otherwise. Raises OSError."""
    try:
        syscalls.mount("sysfs", target, "sysfs", _HARDENED)
    except PermissionError:
        syscalls.mount("sysfs", target, "sysfs", _HARDENED | syscalls.MS_RDONLY)


def show_whole(directory: str) -> None:
    """Mount whole instances below a directory, so that namespaces that copy these mounts may mount their own.

    Has an effect only for a process with CAP_SYS_ADMIN outside of any user namespace, to which all is allowed.
    """
    for name, mount in (("proc", mount_proc), ("sys", mount_sysfs)):
        path = f"{directory}/{name}"
        os.mkdir(path)
        with contextlib.suppress(OSError):  # the lab's own mount fails then, with the reason
            mount(path)
