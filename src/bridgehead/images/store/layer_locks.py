"""Locks on the layers of a content store: what a container uses is not removed.

A runtime holds a shared flock(2) on the directories of the layers that its containers have; whoever removes a layer
needs the exclusive one. The kernel releases locks with the process that has them, so that no list of users of layers is
kept, and none is wrong after a crash. Locks work through the read-only mounts by which nodes see the store.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A collection has the exclusive lock only while it looks whether a layer is used, or renames it.
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.001


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
        if not any(_lock_shared(descriptor) for _ in range(_ATTEMPTS)):
            raise FileNotFoundError(f"{path} is being removed")
        # The directory can have been removed, and unpacked anew, since it was opened.
        if not os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False)):
            raise FileNotFoundError(f"{path} was removed")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _lock_shared(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_PAUSE_SECONDS)
        return False
    return True


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
