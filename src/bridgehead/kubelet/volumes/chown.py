"""Owners of files in volumes, and the access of a pod's group (fsGroup) to a volume that exists before the pod.

Files are named by paths, which is safe only for files that no container can reach yet, or that containers see
read-only, and by names in an open directory. Source: Kubernetes `pkg/volume/volume_linux.go` (`SetVolumeOwnership`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

_FILE: Final = 0o660
_DIRECTORY: Final = 0o2770
_OPEN: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def set_owner(path: Path | str, user: int | None, group: int | None, directory: int | None = None) -> None:
    """Set user and group; None keeps the present one. `directory` is the descriptor of where a relative path begins.

    Raises OSError, and ValueError for an id that is not mapped.
    """
    if user is None and group is None:
        return
    try:
        ids = (-1 if user is None else user, -1 if group is None else group)
        os.chown(path, *ids, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        wanted = " and ".join(
            f"{what} {number}" for what, number in (("user", user), ("group", group)) if number is not None
        )
        raise ValueError(
            f"cannot be owned by {wanted}: the cluster runs in a user namespace that has no such id; an ordinary "
            "user's cluster has a range of them with newuidmap (package uidmap) and /etc/subuid"
        ) from error


def grant_access(directory: Path, group: int, change_policy: str) -> None:
    """Let `group` own all files in `directory`, read and write them. `change_policy` is the pod's fsGroupChangePolicy.

    The files are opened without following links, because pods could write to the volume. Raises OSError, and ValueError
    for a group that the user namespace does not map.
    """
    found = directory.stat()
    if change_policy == "OnRootMismatch" and found.st_gid == group and found.st_mode & _DIRECTORY == _DIRECTORY:
        return
    for _, directories, files, descriptor in os.fwalk(directory, topdown=False):
        for name in (*directories, *files):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                _grant(name, group, descriptor)
    _grant(str(directory), group)  # at last: what was interrupted is done again


def _grant(path: str, group: int, directory: int | None = None) -> None:
    set_owner(path, None, group, directory)
    file = os.open(path, _OPEN, dir_fd=directory)
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISLNK(mode):
            mask = _DIRECTORY if stat.S_ISDIR(mode) else _FILE
            os.chmod(f"/proc/self/fd/{file}", stat.S_IMODE(mode) | mask)
    finally:
        os.close(file)
