"""Locks on the layers of a content store: what a container uses is not removed.

A runtime holds a shared flock(2) on the directories of the layers that its containers have; whoever removes a layer
needs the exclusive one. The kernel releases locks with the process that has them, so that no list of users of layers is
kept, and none is wrong after a crash. Locks work through the read-only mounts by which nodes see the store.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LayerLocks:
    """The layers that one process uses. Each can be used several times."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, int]] = {}  # path -> descriptor and number of users

    def acquire(self, paths: Iterable[str]) -> None:
        """Lock the directories `paths`, all or none. Raises OSError (ENOENT) when one is gone or is being removed."""
        acquired: list[str] = []
        try:
            for path in paths:
                descriptor, users = self._held.get(path, (-1, 0))
                if not users:
                    descriptor = _lock(path)
                self._held[path] = descriptor, users + 1
                acquired.append(path)
        except OSError:
            self.release(acquired)
            raise

    def release(self, paths: Iterable[str]) -> None:
        """Undo one `acquire` of these directories."""
        for path in paths:
            descriptor, users = self._held.pop(path)
            if users > 1:
                self._held[path] = descriptor, users - 1
            else:
                os.close(descriptor)


def _lock(path: str) -> int:
    descriptor = os.open(path, _DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileNotFoundError(f"{path} is being removed") from None
        # The directory can have been removed, and unpacked anew, since it was opened.
        if not os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False)):
            raise FileNotFoundError(f"{path} was removed")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def removing(path: Path) -> Iterator[bool]:
    """Hold the exclusive lock of a layer during the block. Yields False when a container uses the layer."""
    descriptor = os.open(path, _DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def is_used(path: Path) -> bool:
    """Whether a container uses the layer. A layer that is gone is not used."""
    try:
        with removing(path) as is_free:
            return not is_free
    except FileNotFoundError:
        return False
