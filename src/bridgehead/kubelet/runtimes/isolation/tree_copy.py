"""Copy of a directory with all that belongs to its files: owners, modes, times, extended attributes, hard links.

Called while a container's root is built, for directories of images, which nobody changes meanwhile. Devices are left
out, as when layers are unpacked. Source: containerd's `fs.CopyDir`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from typing import Final

_OVERLAY: Final = "user.overlay."  # overlayfs' own attributes, visible in a layer that is not mounted


def copy_directory(source: str, target: str) -> None:
    """Copy the content and the attributes of the directory `source` to the empty directory `target`.

    Raises OSError, also where `source` is no directory.
    """
    _copy_content(source, target, {})


def _copy_content(source: str, target: str, links: dict[tuple[int, int], str]) -> None:
    """`links`: device and inode of each copied file with several names -> the first copy."""
    with os.scandir(source) as entries:
        for entry in entries:
            _copy_entry(entry.path, f"{target}/{entry.name}", entry.stat(follow_symlinks=False), links)
    _copy_attributes(source, target, os.stat(source))


def _copy_entry(source: str, target: str, found: os.stat_result, links: dict[tuple[int, int], str]) -> None:
    if stat.S_ISDIR(found.st_mode):
        os.mkdir(target)
        _copy_content(source, target, links)
        return
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        return
    if found.st_nlink > 1:
        first = links.setdefault((found.st_dev, found.st_ino), target)
        if first != target:
            os.link(first, target, follow_symlinks=False)
            return
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(found.st_mode):
        shutil.copyfile(source, target)
    else:
        os.mknod(target, stat.S_IFMT(found.st_mode) | 0o600)
    _copy_attributes(source, target, found)


def _copy_attributes(source: str, target: str, found: os.stat_result) -> None:
    os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(found.st_mode):
        os.chmod(target, stat.S_IMODE(found.st_mode))  # after the owner, whose change clears the set-user-ID bit
    with contextlib.suppress(OSError):  # this file system or user namespace lacks an attribute
        for name in os.listxattr(source, follow_symlinks=False):
            if not name.startswith(_OVERLAY):
                os.setxattr(target, name, os.getxattr(source, name, follow_symlinks=False), follow_symlinks=False)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)
