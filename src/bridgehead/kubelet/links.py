"""Opening and removing files below directories that a pod may write to: no symbolic link leads anywhere else.

A pod may write to its emptyDirs, and with a hostPath volume to the kubelet's logs. A link that it leaves there would be
resolved in the kubelet's file system.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """A descriptor of the absolute `path`. Raises OSError, also where a symbolic link is on the way."""
    current = os.open("/", _WALK)
    try:
        last = len(path.parts) - 1
        for depth, part in enumerate(path.parts[1:], 1):
            # What is only passed through need not be readable.
            descriptor = os.open(part, _DIRECTORY if depth == last else _WALK, dir_fd=current)
            os.close(current)
            current = descriptor
        yield current
    finally:
        os.close(current)


def open_file(path: Path) -> BinaryIO:
    """A regular file at the absolute `path`, to read. Raises OSError, also where a symbolic link is on the way, and for
    what is no file (a FIFO would block the reader)."""
    with open_directory(path.parent) as directory:
        descriptor = os.open(
            path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=directory
        )
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def remove_tree(path: Path) -> None:
    """Remove a directory with all it has; what cannot be removed stays. Fine if it is gone.

    Needs three descriptors, however deep a pod has made the tree (`shutil.rmtree` needs one, and a stack frame, for
    each level): directories are moved up to the top before they are emptied.
    """
    with contextlib.suppress(OSError), open_directory(path.parent) as parent:
        top = os.open(path.name, _DIRECTORY, dir_fd=parent)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(path.name, dir_fd=parent)


def _empty(top: int) -> None:
    """Remove everything below `top`."""
    names = (f"..removed-{secrets.token_hex(8)}-{number}" for number in itertools.count())  # none that a pod has taken
    has_moved = True
    while has_moved:  # the directories that were moved up are next
        has_moved = False
        for name in _names(top):
            if _unlink(top, name):
                continue
            try:
                directory = os.open(name, _DIRECTORY, dir_fd=top)
            except OSError:
                continue
            try:
                for inner in _names(directory):
                    if not (_unlink(directory, inner) or _remove_empty(directory, inner)):
                        has_moved |= _move(directory, inner, top, next(names))
            finally:
                os.close(directory)
            _remove_empty(top, name)


def _names(directory: int) -> Iterator[str]:
    """One after the other: a pod may have made millions."""
    with os.scandir(directory) as entries:
        for entry in entries:
            yield entry.name


def _unlink(directory: int, name: str) -> bool:
    """Whether it is gone: directories are not, nor is what must not be removed."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _move(directory: int, name: str, target: int, new_name: str) -> bool:
    try:
        os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=target)
    except OSError:
        return False
    return True


def _remove_empty(directory: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError:
        return False
    return True
