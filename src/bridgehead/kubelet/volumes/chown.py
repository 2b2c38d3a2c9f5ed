"""Set the owner of files in volumes.

Files are named by paths, which is safe only for files that no container can reach yet, or that containers see
read-only, and by names in an open directory.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


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
