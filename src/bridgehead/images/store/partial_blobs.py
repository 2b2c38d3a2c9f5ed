"""Blobs that are being written."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bridgehead.images.errors import BadImage
from bridgehead.images.manifests import Descriptor

from .disk import check_space

_CHUNK: Final = 1 << 20


class Partial:
    """A blob that is being written. A locked file stays for a later attempt, which goes on where this one ended: with
    `resume`, else from the beginning."""

    def __init__(self, path: Path, fd: int, algorithm: str) -> None:
        self._path = path
        self._fd = fd
        self._algorithm = algorithm
        self._hash = hashlib.new(algorithm)
        self.size = 0

    def resume(self) -> None:
        """Hash what an earlier attempt wrote, and go on after it. Blocks; raises OSError."""
        # Hashing has a descriptor of its own: when the download is cancelled, its thread goes on for a while.
        self.size = hash_file(self._path, self._hash.update)

    def write(self, data: bytes) -> None:
        check_space(self._fd, len(data))
        self._hash.update(data)
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, self.size)
            view = view[written:]
            self.size += written

    @property
    def digest(self) -> str:
        return f"{self._algorithm}:{self._hash.hexdigest()}"

    def restart(self) -> None:
        os.ftruncate(self._fd, 0)
        self._hash = hashlib.new(self._algorithm)
        self.size = 0

    def commit(self, descriptor: Descriptor, target: Path) -> None:
        """Make the file the blob. Raises `BadImage` when digest or size differ from the descriptor.

        The file is then empty."""
        os.ftruncate(self._fd, self.size)  # an earlier attempt that is not resumed may have written more
        found = self.digest
        if (self.size, found) != (descriptor.size, descriptor.digest):
            size = self.size
            self.restart()
            raise BadImage(f"unexpected content: {found} of {size} bytes, not {descriptor.digest} of {descriptor.size}")
        target.parent.mkdir(parents=True, exist_ok=True)
        os.fchmod(self._fd, 0o644)
        os.rename(self._path, target)


def hash_file(path: Path, update: Callable[[bytes], object]) -> int:
    """Add the content of a file to a hash by its `update`; returns the number of bytes. Raises OSError."""
    size = 0
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            update(data)
            size += len(data)
    return size


def has_content(path: Path, descriptor: Descriptor) -> bool:
    """Return whether a file is what the descriptor promises. Blocks; raises OSError."""
    algorithm = descriptor.digest.partition(":")[0]
    hashed = hashlib.new(algorithm)
    size = hash_file(path, hashed.update)
    return (size, f"{algorithm}:{hashed.hexdigest()}") == (descriptor.size, descriptor.digest)


def lock_partial(fd: int, path: Path) -> bool:
    """Lock the open file `path`; False when another process has it, or has made it a blob since it was opened."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False
