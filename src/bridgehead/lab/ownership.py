"""Keeps a state directory to the user whose lab it is: who reads it has the cluster's keys, who writes it runs the lab.

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
    """Raises `LabError` when there is such a directory and it is another user's."""
    try:
        owner = _other_user(root.stat().st_uid)
    except OSError:
        return  # there is none, or who makes it says why that can't be
    if owner:
        raise LabError(f"{root} belongs to {owner}: name a directory of your own with --state-dir")


def close_to_others(root: Path) -> None:
    """Take from other users what they may do in `root`.

    The caller holds the directory's lock, for a lab that runs lets its own ids pass through. Raises `LabError` when
    others own something in it, which they could have put there.
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
    """Whether users other than the owner and the lab's may do anything in there."""
    mode = stat.S_IMODE(status.st_mode)
    return bool(mode & stat.S_IRWXO or (mode & stat.S_IRWXG and _has_group(status.st_gid)))


def _has_group(gid: int) -> bool:
    """Whether it is a group of the machine. The ids that a lab is given are nobody's."""
    try:
        grp.getgrgid(gid)
    except KeyError:
        return False
    return True


def _other_user(uid: int) -> str:
    """The name of a user who is not us, nor root, nor one of a lab's ids; else ""."""
    if uid in (0, os.geteuid()):
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _entries(root: Path) -> Iterator[Path]:
    """What is in the directory, and in its directories. Deeper things are pods' and images'."""
    for path in root.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from path.iterdir()
