"""Blobs that the labs of one user share: files by digest, which a lab's store links to.

The cache belongs to the user, and no lab can write to it or look into it: a process with the user's rights links a blob
into a lab's store when the lab's puller asks for its digest. A blob without another link is in no lab's store. It stays
for a while, because labs are deleted and made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import time
from pathlib import Path
from typing import BinaryIO, Final

from bridgehead.images import documents

from .disk import check_space, create_file

UNUSED_SECONDS: Final = 7 * 86400.0
_TEMPORARY: Final = ".new-"
_CHUNK: Final = 1 << 20


class BlobCache:
    """The cache in the directory `root`, which need not exist. Methods raise OSError, and `BadImage` for a digest that
    is none."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def lend(self, digest: str, size: int, directory: int) -> str:
        """Link a blob into the open `directory`. Returns its name there, "" when the cache lacks the blob or is on
        another disk."""
        path = self._path(digest)
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size != size or found.st_uid != os.geteuid():
                return ""
            name = f"shared-{secrets.token_hex(8)}"
            os.utime(path, follow_symlinks=False)
            os.link(path, name, dst_dir_fd=directory, follow_symlinks=False)
        except OSError:
            return ""
        return name

    def add(self, digest: str, size: int, blob: BinaryIO) -> bool:
        """Add a copy of the content of `blob`, which is not trusted; returns whether it is what the digest promises.

        The copy replaces an earlier one, which has become useless if somebody had to download the blob.
        """
        path = self._path(digest)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.fstat(blob.fileno()).st_dev != self._root.stat().st_dev:
            return False  # nothing could be linked
        temporary = self._root / f"{_TEMPORARY}{secrets.token_hex(8)}"
        descriptor = create_file(temporary)
        try:
            check_space(descriptor, size)
            if _copy(blob, descriptor, size, digest.partition(":")[0]) != digest:
                return False
            os.fchmod(descriptor, 0o444)
            os.fsync(descriptor)
            os.rename(temporary, path)
        finally:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
        return True

    def trim(self, unused_seconds: float) -> int:
        """Remove the blobs that are in no lab's store and were not asked for lately; returns the bytes that are free
        then."""
        freed = 0
        until = time.time() - unused_seconds
        with contextlib.suppress(FileNotFoundError), os.scandir(self._root) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if found.st_nlink == 1 and found.st_mtime <= until:
                    os.unlink(entry.path)
                    freed += found.st_blocks * 512
        return freed

    def _path(self, digest: str) -> Path:
        return self._root / documents.check_digest(digest).replace(":", "-")


def _copy(source: BinaryIO, target: int, size: int, algorithm: str) -> str:
    """Copy as many bytes; returns their digest."""
    hashed = hashlib.new(algorithm)
    while size > 0 and (data := source.read(min(_CHUNK, size))):
        hashed.update(data)
        size -= len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
    return f"{algorithm}:{hashed.hexdigest()}"
