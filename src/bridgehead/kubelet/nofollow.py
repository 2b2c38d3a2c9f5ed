"""Open and remove files below directories that pods can write to, without following symbolic links (O_NOFOLLOW).

A pod can write to its emptyDirs, and with a hostPath volume to the kubelet's logs. A symbolic link there would be
resolved in the kubelet's file system.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """Open the directory at the absolute `path`; yields a descriptor.

    Raises OSError, also for a symbolic link in `path`.
    """
    current = os.open("/", _WALK)
    try:
        last = len(path.parts) - 1
        for depth, part in enumerate(path.parts[1:], 1):
            # Directories that are only passed through (O_PATH) need not be readable.
            descriptor = os.open(part, _DIRECTORY if depth == last else _WALK, dir_fd=current)
            os.close(current)
            current = descriptor
        yield current
    finally:
        os.close(current)


def open_file(path: Path) -> BinaryIO:
    """Open the regular file at the absolute `path` for reading.

    Raises OSError, also for a symbolic link in `path` and for any other kind of file (a FIFO would block the reader).
    """
    with open_directory(path.parent) as directory:
        descriptor = os.open(
            path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=directory
        )
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def remove_tree(path: Path) -> None:
    """Remove the directory at the absolute `path` with its content. Files that can't be removed stay; no errors are
    raised.

    Three descriptors are enough for a tree of any depth (`shutil.rmtree` needs a descriptor and a stack frame for each
    level): nested directories are moved to the top before they are emptied.
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
    names = (f"..removed-{os.urandom(8).hex()}-{number}" for number in itertools.count())  # unknown to the pod
    has_moved = True
    while has_moved:  # the next round empties the directories that this round moved up
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
    """Yield the names in `directory`, without a list of them all: a pod may have made millions."""
    with os.scandir(directory) as entries:
        for entry in entries:
            yield entry.name


def _unlink(directory: int, name: str) -> bool:
    """Unlink a file; return whether it is gone. Directories and immutable files are not."""
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
