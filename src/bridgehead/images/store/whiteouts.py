"""Whiteouts and opaque directories of layers, in overlayfs' forms.

A whiteout is a character device 0/0. On an overlay, where the state of a lab in a container is, nobody can make one:
there it is an empty file with an attribute, which Linux 6.7 recognizes. All attributes are those of the mount option
"userxattr", because nobody may set "trusted." ones in a user namespace. Source: the kernel's overlayfs documentation.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

from .file_attributes import get_attribute

OPAQUE: Final = "user.overlay.opaque"
WHITEOUT: Final = "user.overlay.whiteout"
# Attribute of the root of a layer with whiteouts: without layers below it, they have to be left out.
PRESENT: Final = "user.bridgehead.whiteouts"
HIDES_ALL: Final = b"y"  # values of OPAQUE
HAS_WHITEOUTS: Final = b"x"  # that are files
_OWN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def hide(parent: int, name: str) -> None:
    """Hide what lower layers have under a name, but not this layer's own file or directory. Raises OSError.

    `parent` is a descriptor of a directory of the layer.
    """
    try:
        _make_whiteout(parent, name)
    except FileExistsError:
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            hide_all(parent, name)


def hide_all(parent: int, name: str = ".") -> None:
    """Let a directory hide all that lower layers have in it. Raises OSError."""
    directory = os.open(name, _OWN_DIRECTORY, dir_fd=parent)
    try:
        if _get(directory, OPAQUE) == HAS_WHITEOUTS:  # they are files where the kernel does not look for them
            for each in os.listdir(directory):
                if is_whiteout(directory, each):
                    os.unlink(each, dir_fd=directory)
        os.setxattr(directory, OPAQUE, HIDES_ALL)
    finally:
        os.close(directory)


def is_whiteout(parent: int, name: str) -> bool:
    """Whether a name in a directory of a layer is a whiteout. Raises OSError (ENOENT) when there is none."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISCHR(found.st_mode):
        return found.st_rdev == 0
    if not stat.S_ISREG(found.st_mode) or found.st_size:
        return False
    file = os.open(name, _OWN_FILE, dir_fd=parent)
    try:
        return _get(file, WHITEOUT) is not None
    finally:
        os.close(file)


def is_opaque(directory: str) -> bool:
    """Whether a directory of a layer hides all that lower layers have in it."""
    return get_attribute(directory, OPAQUE) == HIDES_ALL


def mark_present(root: int) -> None:
    """Record that the layer with the root `root`, a descriptor, has whiteouts, where the file system has attributes."""
    with contextlib.suppress(OSError):
        os.setxattr(root, PRESENT, b"")


def are_present(layer: str) -> bool:
    """Whether the layer in a directory has whiteouts."""
    return get_attribute(layer, PRESENT) is not None


def _make_whiteout(parent: int, name: str) -> None:
    try:
        os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=parent)
        return
    except PermissionError:
        directory = os.open(".", _OWN_DIRECTORY, dir_fd=parent)
    try:
        if _get(directory, OPAQUE) == HIDES_ALL:
            return
        file = os.open(name, _NEW_FILE, 0o600, dir_fd=directory)
        try:
            os.setxattr(file, WHITEOUT, b"")
        finally:
            os.close(file)
        os.setxattr(directory, OPAQUE, HAS_WHITEOUTS)
    finally:
        os.close(directory)


def _get(descriptor: int, attribute: str) -> bytes | None:
    with contextlib.suppress(OSError):  # none, or the file system has no attributes
        return os.getxattr(descriptor, attribute)
    return None
