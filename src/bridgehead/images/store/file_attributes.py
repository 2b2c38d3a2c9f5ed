"""Attributes of files of layers: owners, modes, times and extended attributes."""

from __future__ import annotations

import contextlib
import os
import stat

from .entries import OWN_PREFIXES


def get_attribute(path: str, name: str) -> bytes | None:
    """Return the value of an extended attribute of a file, not of what a link leads to; None if there is none."""
    with contextlib.suppress(OSError):  # none, or the file system has no attributes
        return os.getxattr(path, name, follow_symlinks=False)
    return None


def copy_attributes(source: str, target: str, found: os.stat_result) -> None:
    """Give the file `target` all attributes of the file `source`, of which `found` is the status. Raises OSError."""
    os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(found.st_mode):
        os.chmod(target, stat.S_IMODE(found.st_mode))  # after the owner, whose change clears the set-user-ID bit
    with contextlib.suppress(OSError):  # the file system has no attributes
        for name in os.listxattr(source, follow_symlinks=False):
            if not name.startswith(OWN_PREFIXES):
                with contextlib.suppress(OSError):  # this file system or user namespace lacks the attribute
                    os.setxattr(target, name, os.getxattr(source, name, follow_symlinks=False), follow_symlinks=False)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)
