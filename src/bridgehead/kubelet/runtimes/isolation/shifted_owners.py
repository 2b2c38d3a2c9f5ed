"""Owners of the files of a container whose pod has a user namespace of its own.

The kernel would map owners by id-mapped mounts, which only a process may make that is privileged where the file system
was mounted: on the machine, not in a lab's user namespace. Files that belong to one pod alone therefore get other
owners. Source: mount_setattr(2), "ID-mapped mounts"; capabilities(7), "File capabilities".
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from typing import Final

from bridgehead.kubelet.runtimes.runtime import POD_IDS
from bridgehead.network import syscalls

_CAPABILITIES: Final = "security.capability"
_REVISION_3: Final = 0x03000000  # VFS_CAP_REVISION_3: with the user whose root of a namespace has the capabilities
_EFFECTIVE: Final = 0x000001  # VFS_CAP_FLAGS_EFFECTIVE
_WORD: Final = struct.Struct("<I")
_DATA: Final = slice(4, 20)  # two sets of 64 bits


def shift(directory: str, id_base: int) -> None:
    """Let all files of a directory belong to the ids that are `id_base` higher, once: ids above POD_IDS stay.

    Mounts in it are left out. No other process changes the files. Raises OSError.
    """
    tree = syscalls.clone_mount(directory, recursive=False)
    try:
        _shift(".", tree, id_base)
        for _, directories, files, descriptor in os.fwalk(".", dir_fd=tree):
            for name in (*directories, *files):
                _shift(name, descriptor, id_base)
    finally:
        os.close(tree)


def _shift(name: str, directory: int, id_base: int) -> None:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    user, group = (_shifted(number, id_base) for number in (found.st_uid, found.st_gid))
    if user < 0 and group < 0:
        return
    is_program = stat.S_ISREG(found.st_mode) and found.st_mode & 0o111
    capabilities = _read_capabilities(name, directory) if is_program else b""
    os.chown(name, user, group, dir_fd=directory, follow_symlinks=False)
    if found.st_mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISLNK(found.st_mode):
        os.chmod(name, stat.S_IMODE(found.st_mode), dir_fd=directory)  # the kernel has cleared these bits
    if capabilities:
        _write_capabilities(name, directory, capabilities, id_base)


def _shifted(number: int, id_base: int) -> int:
    return number + id_base if number < POD_IDS else -1


def _read_capabilities(name: str, directory: int) -> bytes:
    try:
        return os.getxattr(f"/proc/self/fd/{directory}/{name}", _CAPABILITIES, follow_symlinks=False)
    except OSError:  # none, or those that another user namespace has given it
        return b""


def _write_capabilities(name: str, directory: int, before: bytes, id_base: int) -> None:
    """Write the capabilities of a program for the root of the pod's user namespace."""
    [magic] = _WORD.unpack(before[:4])
    value = _WORD.pack(_REVISION_3 | magic & _EFFECTIVE) + before[_DATA].ljust(16, b"\0") + _WORD.pack(id_base)
    with contextlib.suppress(PermissionError):  # as for layers: a node that may not set them runs the program without
        os.setxattr(f"/proc/self/fd/{directory}/{name}", _CAPABILITIES, value, follow_symlinks=False)
