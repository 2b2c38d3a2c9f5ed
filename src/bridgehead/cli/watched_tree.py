"""Changes of files below directories, by inotify(7)."""

from __future__ import annotations

import os
import select
import struct
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Self

from bridgehead.lab.errors import LabError
from bridgehead.network import syscalls
from bridgehead.network.uapi.inotify import (
    IN_ATTRIB,
    IN_CLOSE_WRITE,
    IN_CREATE,
    IN_DELETE,
    IN_IGNORED,
    IN_ISDIR,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_ONLYDIR,
    IN_Q_OVERFLOW,
)

# Files and directories that editors, version control and builds write: matched with the last component of a path.
IGNORED: Final = (
    *(".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"),
    *("*.pyc", "*.swp", "*.swx", "*~", ".#*", "4913"),  # the last one is vim's test of a directory
)
_EVENTS: Final = IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR
_EVENT: Final = struct.Struct("=iIII")  # struct inotify_event (linux/inotify.h), without its name
_MOST_DIRECTORIES: Final = 50_000
_BUFFER: Final = 1 << 16


class WatchedTree:
    """Directories with all below them, and single files. Names of what changed are paths."""

    def __init__(self, paths: Sequence[Path], ignored: Sequence[str]) -> None:
        """`ignored`: patterns for the last component of a path, or for the whole. Raises `LabError`."""
        self._ignored = tuple(ignored)
        self._directories: dict[int, str] = {}  # by the number of the watch
        self._trees: set[str] = set()  # directories of which all files count
        self._files = {os.path.abspath(path) for path in paths if not path.is_dir()}
        self._queue = syscalls.open_watches()
        for path in paths:
            if not path.exists():
                raise LabError(f"{path} does not exist")
            for _ in self._add(os.path.abspath(path if path.is_dir() else path.parent), is_tree=path.is_dir()):
                pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._queue)

    def wait(self, quiet: float, bound: float) -> set[str]:
        """Wait for a change, and then until none came for `quiet` seconds, or for `bound` seconds at most."""
        changed: set[str] = set()
        while not changed:
            select.select([self._queue], [], [])
            changed |= self.read()
        deadline = time.monotonic() + bound
        while time.monotonic() < deadline and select.select([self._queue], [], [], quiet)[0]:
            changed |= self.read()
        return changed

    def read(self) -> set[str]:
        """Return the paths that have changed since the last call."""
        changed: set[str] = set()
        while True:
            try:
                data = os.read(self._queue, _BUFFER)
            except BlockingIOError:
                return changed
            offset = 0
            while offset < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, offset)
                name = data[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
                offset += _EVENT.size + length
                changed |= self._changes(number, mask, os.fsdecode(name))

    def _changes(self, number: int, mask: int, name: str) -> set[str]:
        if mask & IN_Q_OVERFLOW:
            return {"more files than the kernel lists"}
        if mask & IN_IGNORED:
            self._directories.pop(number, None)
            return set()
        directory = self._directories.get(number)
        if directory is None or not name:
            return set()
        path = f"{directory}/{name}"
        if self._is_ignored(path) or not (directory in self._trees or path in self._files):
            return set()
        if mask & IN_ISDIR:
            # Files may have come before the watch of a new directory.
            return set(self._add(path, is_tree=True)) if mask & (IN_CREATE | IN_MOVED_TO) else {path}
        return {path}

    def _add(self, top: str, *, is_tree: bool) -> Iterator[str]:
        """Watch a directory, with those below it if `is_tree`, and yield the files there."""
        for directory, directories, files in os.walk(top):
            directories[:] = [each for each in directories if is_tree and not self._is_ignored(f"{directory}/{each}")]
            if len(self._directories) >= _MOST_DIRECTORIES:
                raise LabError(
                    f"more than {_MOST_DIRECTORIES} directories below {top}: --path names fewer, or --ignore"
                )
            try:
                self._directories[syscalls.add_watch(self._queue, directory, _EVENTS)] = directory
            except (FileNotFoundError, NotADirectoryError, PermissionError):  # removed meanwhile, or another user's
                continue
            except OSError as error:
                raise LabError(
                    f"{directory} cannot be watched ({error.strerror}): as root, `sysctl -w"
                    " fs.inotify.max_user_watches=524288`, or name fewer directories with --path"
                ) from error
            if is_tree:
                self._trees.add(directory)
            yield from (path for file in files if not self._is_ignored(path := f"{directory}/{file}"))

    def _is_ignored(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return any(fnmatchcase(name, pattern) or fnmatchcase(path, pattern) for pattern in (*IGNORED, *self._ignored))
