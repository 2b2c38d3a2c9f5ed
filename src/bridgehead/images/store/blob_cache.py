"""Blobs that the labs of one user share: files by digest, which a lab's store links to.

The cache belongs to the user, and no node of a lab can write to it or look into it: a process with the user's rights
links a blob into a lab's store when the lab's puller asks for its digest. A blob without another link is in no lab's
store. It stays for a while, because labs are deleted and made again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from bridgehead.images import manifests

from .disk import check_space

UNUSED_SECONDS: Final = 7 * 86400.0
_TEMPORARY: Final = ".new-"
_ABANDONED_SECONDS: Final = 3600.0  # after the last write to a temporary file, its process has ended
_CHUNK: Final = 1 << 20
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class BlobCache:
    """The cache in the directory `root`, which need not exist. Methods raise OSError, and `BadImage` for a digest that
    is none. A directory that another user could change is not used (EPERM)."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def lend(self, digest: str, size: int, directory: int) -> str:
        """Link a blob into the open `directory`. Returns its name there, "" when the cache lacks the blob or is on
        another disk."""
        blob = _name_of(digest)
        name = f"shared-{secrets.token_hex(8)}"
        try:
            with self._opened() as root:
                found = os.stat(blob, dir_fd=root, follow_symlinks=False)
                if not stat.S_ISREG(found.st_mode) or found.st_size != size or found.st_uid != os.geteuid():
                    return ""
                os.utime(blob, dir_fd=root, follow_symlinks=False)
                os.link(blob, name, src_dir_fd=root, dst_dir_fd=directory, follow_symlinks=False)
        except OSError:
            return ""
        return name

    def add(self, digest: str, size: int, blob: BinaryIO) -> bool:
        """Add a copy of the content of `blob`, which is not trusted; returns whether it is what the digest promises.

        The copy replaces an earlier one, which has become useless if somebody had to download the blob.
        """
        target = _name_of(digest)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._opened() as root:
            if os.fstat(blob.fileno()).st_dev != os.fstat(root).st_dev:
                return False  # nothing could be linked
            temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
            descriptor = os.open(temporary, _NEW_FILE, 0o600, dir_fd=root)
            try:
                check_space(descriptor, size)
                if _copy(blob, descriptor, size, digest.partition(":")[0]) != digest:
                    return False
                os.fchmod(descriptor, 0o444)
                os.fsync(descriptor)
                os.rename(temporary, target, src_dir_fd=root, dst_dir_fd=root)
            finally:
                os.close(descriptor)
                with contextlib.suppress(FileNotFoundError):  # it was renamed
                    os.unlink(temporary, dir_fd=root)
        return True

    def trim(self, unused_seconds: float) -> int:
        """Remove the blobs that are in no lab's store and were not asked for lately; returns the bytes that are free
        then."""
        freed = 0
        now = time.time()
        with contextlib.suppress(FileNotFoundError), self._opened() as root:
            for name in os.listdir(root):
                is_temporary = name.startswith(_TEMPORARY)  # perhaps another lab is copying to it now
                until = now - (_ABANDONED_SECONDS if is_temporary else unused_seconds)
                with contextlib.suppress(FileNotFoundError):  # another lab was faster
                    found = os.stat(name, dir_fd=root, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_mtime <= until:
                        os.unlink(name, dir_fd=root)
                        freed += found.st_blocks * 512
        return freed

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Yield a descriptor of the directory. Raises OSError, also when another user could change it."""
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(root)
            if found.st_uid != os.geteuid() or found.st_mode & _WRITABLE_BY_OTHERS:
                reason = "it belongs to another user, or others can write to it; remove it"
                raise PermissionError(errno.EPERM, reason, str(self._root))
            yield root
        finally:
            os.close(root)


def _name_of(digest: str) -> str:
    return manifests.check_digest(digest).replace(":", "-")


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
