"""Files of a content store on a disk that can get full."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from bridgehead.images.errors import StoreFailed

LEAST_FREE: Final = 256 << 20  # bytes that stay free on the disk


def create_file(path: Path) -> int:
    """Create a file that only this user can read; returns its descriptor. Raises OSError."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def check_space(fd: int, size: int) -> None:
    """Raise OSError (ENOSPC) when `size` more bytes would leave too little on the disk for the lab itself."""
    disk = os.fstatvfs(fd)
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < size + LEAST_FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def disk_failure(error: OSError) -> StoreFailed:
    """Return the error for a failure of the disk."""
    return StoreFailed(f"cannot write to the content store: {(error.strerror or str(error)).lower()}")
