"""Access of a pod's group (fsGroup) to the files of a volume that exists before the pod.

The volume's files are opened without following links, because pods could write to it. Source: Kubernetes
`pkg/volume/volume_linux.go` (`SetVolumeOwnership`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from .chown import set_owner

_FILE: Final = 0o660
_DIRECTORY: Final = 0o2770
_OPEN: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def grant_access(directory: Path, group: int, change_policy: str) -> None:
    """Let `group` own all files in `directory`, read and write them. `change_policy` is the pod's fsGroupChangePolicy.

    Raises OSError, and ValueError for a group that the user namespace does not map.
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
