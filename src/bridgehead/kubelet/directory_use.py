"""Use of the disk by directories that pods can write to.

No more than a million entries of a directory are read, so that a pod with very many files costs a bounded time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bridgehead.network import syscalls

from .nofollow import open_file

COPY: Final = "root"  # a container's root file system in the directory of its run, where it is a copy of its image
COPY_SIZE: Final = "root.size"  # a file with the bytes that the copy had at first
_SIZE_DIGITS: Final = 20
_MOST_ENTRIES: Final = 1_000_000
_NO_LINKS: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_SYMLINKS


def measure_directory(directory: Path, most_entries: int = _MOST_ENTRIES) -> int:
    """Return the bytes that the files below a directory occupy, 0 if there is none. Links are not followed."""
    total = 0
    seen: set[tuple[int, int]] = set()  # files with several names
    for status in itertools.islice(_walk(str(directory)), most_entries):
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
        total += status.st_blocks * 512
    return total


def measure_copies(runs: Path) -> int:
    """Return what a container's root file system has more than its image, in bytes; 0 if it is no copy.

    `runs` has a directory for each run of the container.
    """
    total = 0
    for file in runs.glob(f"*/{COPY_SIZE}"):
        with contextlib.suppress(OSError, ValueError), open_file(file) as text:
            total += max(measure_directory(file.parent / COPY) - int(text.read(_SIZE_DIGITS)), 0)
    return total


def _walk(directory: str) -> Iterator[os.stat_result]:
    """Yield the status of everything below a directory."""
    with contextlib.suppress(OSError):
        top = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            pending = [(".", ".")]  # the path of a parent, which its directories share, and a name in it
            while pending:
                path = "/".join(pending.pop())
                for name, status in _list(top, path):
                    if stat.S_ISDIR(status.st_mode):
                        pending.append((path, name))
                    yield status
        finally:
            os.close(top)


def _list(top: int, path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of everything in a directory, nothing for one that is gone. A container may replace a
    directory by a link at any time."""
    with contextlib.suppress(OSError):
        descriptor = syscalls.open_beneath(top, path, os.O_RDONLY | os.O_DIRECTORY, _NO_LINKS)
        try:
            with os.scandir(descriptor) as found:
                for entry in found:
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.name, entry.stat(follow_symlinks=False)
        finally:
            os.close(descriptor)
