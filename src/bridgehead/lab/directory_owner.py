"""Protects a state directory from other users: readers would get the cluster's keys, writers could control the lab.

`--state-dir` may name a directory that others can read, or could write to until now. Called by `bridgehead up`.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from .errors import LabError


def check_owner(root: Path) -> None:
    """Raise `LabError` when the directory exists and belongs to another user."""
    try:
        owner = _other_user(root.stat().st_uid)
    except OSError:
        return  # it does not exist; errors are reported where it is made
    if owner:
        raise LabError(f"{root} belongs to {owner}: name a directory of your own with --state-dir")


def close_to_others(root: Path) -> None:
    """Remove other users' permissions on `root`.

    The caller holds the lock of the directory, because a running lab needs access for its own ids. Raises `LabError`
    when other users own something in it, which they could have put there.
    """
    try:
        if not _is_open(root.stat()):
            return
        root.chmod(0o700)
        for path in _entries(root):
            if owner := _other_user(path.lstat().st_uid):
                raise LabError(
                    f"{root} was open to other users, and {path} is {owner}'s: name another with --state-dir"
                )
    except OSError as error:
        raise LabError(
            f"{root} is open to other users, which cannot be changed: {error.strerror}; choose another with --state-dir"
        ) from error


def _is_open(status: os.stat_result) -> bool:
    """Return whether users other than the owner and the lab have permissions on the directory."""
    mode = stat.S_IMODE(status.st_mode)
    return bool(mode & stat.S_IRWXO or (mode & stat.S_IRWXG and _has_group(status.st_gid)))


def _has_group(gid: int) -> bool:
    """Return whether the machine has this group. Ids of labs belong to no group of the machine."""
    try:
        grp.getgrgid(gid)
    except KeyError:
        return False
    return True


def _other_user(uid: int) -> str:
    """Return the name of a user who is neither the caller nor root nor an id of a lab; else ""."""
    if uid in (0, os.geteuid()):
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _entries(root: Path) -> Iterator[Path]:
    """Yield the entries of the directory and of its directories. Deeper entries belong to pods and images."""
    for path in root.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from path.iterdir()
