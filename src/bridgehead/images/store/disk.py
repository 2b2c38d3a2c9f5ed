"""Files of a content store on a disk that can get full."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from bridgehead.images.disk_usage import DiskUsage
from bridgehead.images.errors import StoreFailed
from bridgehead.network import syscalls

LEAST_FREE: Final = 256 << 20  # bytes that stay free on the disk


def create_file(path: Path) -> int:
    """Create a file that only this user can read; returns its descriptor. Raises OSError."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def check_space(fd: int, size: int) -> None:
    """Raise OSError (ENOSPC) when `size` more bytes would leave too little on the disk for the lab itself."""
    disk = os.fstatvfs(fd)
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < size + LEAST_FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def check_room(disk: DiskUsage, size: int) -> None:
    """Raise `StoreFailed` when a download of `size` bytes would leave too little on the disk."""
    room = max(disk.available - LEAST_FREE, 0)
    if disk.capacity and size > room:
        reason = os.strerror(errno.ENOSPC).lower()
        raise StoreFailed(
            f"cannot write to the content store: {reason}: {size / 1e6:.0f} MB are to be downloaded, and the disk"
            f" has room for {room / 1e6:.0f} MB"
        )


def sync_file_system(directory: Path) -> None:
    """Write all files of the file system that has a directory to the disk. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syscalls.sync_file_system(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Write a file to the disk. Raises OSError."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def disk_failure(error: OSError) -> StoreFailed:
    """Return the error for a failure of the disk."""
    return StoreFailed(f"cannot write to the content store: {(error.strerror or str(error)).lower()}")
