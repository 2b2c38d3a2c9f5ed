"""Changes of files below directories, by inotify(7)."""

from __future__ import annotations

import os
import select
import struct
import time
from collections.abc import Collection, Sequence
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
    IN_MOVE_SELF,
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
_EVENTS: Final = (
    IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF | IN_ONLYDIR
)
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
        self._tops: dict[str, bool] = {}  # the directories that were asked for; whether all below them counts
        self._lost: set[str] = set()  # those of them that have no watch now
        for path in paths:
            if not path.exists():
                raise LabError(f"{path} does not exist")
            top = os.path.abspath(path if path.is_dir() else path.parent)
            self._tops[top] = self._tops.get(top, False) or path.is_dir()
        self._queue = syscalls.open_watches()
        self._add_tops(self._tops)
        if self._lost:
            raise LabError(f"{min(self._lost)} cannot be watched: this user may not read it, or it was just removed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._queue)

    def wait(self, quiet: float, bound: float) -> set[str]:
        """Wait for a change, and then until none came for `quiet` seconds, or for `bound` seconds at most.

        Raises `LabError` for a directory that was asked for and stays away for `bound` seconds.
        """
        changed: set[str] = set()
        while not (changed or self._lost):
            select.select([self._queue], [], [])
            changed |= self.read()
        deadline = time.monotonic() + bound
        while time.monotonic() < deadline and (select.select([self._queue], [], [], quiet)[0] or self._lost):
            changed |= self.read()
        if self._lost:
            raise LabError(f"{min(self._lost)} was removed, or may no longer be read: make it again, then start again")
        return changed

    def read(self) -> set[str]:
        """Return the paths that have changed since the last call."""
        changed: set[str] = set()
        while True:
            try:
                data = os.read(self._queue, _BUFFER)
            except BlockingIOError:
                return changed | self._add_tops(self._lost)
            offset = 0
            while offset < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, offset)
                name = data[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
                offset += _EVENT.size + length
                changed |= self._changes(number, mask, os.fsdecode(name))

    def _changes(self, number: int, mask: int, name: str) -> set[str]:
        if mask & IN_Q_OVERFLOW:
            self._directories.clear()  # of some, the end is among what was not listed
            self._add_tops(self._tops)
            return {"more files than the kernel lists"}
        if mask & (IN_IGNORED | IN_MOVE_SELF):
            return self._end(number, is_moved=not mask & IN_IGNORED)
        directory = self._directories.get(number)
        if directory is None or not name:
            return set()
        path = f"{directory}/{name}"
        if self._is_ignored(path) or not (directory in self._trees or path in self._files):
            return set()
        if mask & IN_ISDIR:
            # Files may have come before the watch of a new directory.
            return self._add(path, is_tree=True) if mask & (IN_CREATE | IN_MOVED_TO) else {path}
        return {path}

    def _end(self, number: int, *, is_moved: bool) -> set[str]:
        """Forget a watch that has ended, or whose directory has moved; return the directory if it was asked for."""
        directory = self._directories.get(number)
        if directory is None or directory not in self._tops:
            if not is_moved:  # a directory that moved has its new name from the event of the one above
                self._directories.pop(number, None)
            return set()
        below = f"{directory}/"
        self._directories = {
            each: path for each, path in self._directories.items() if path != directory and not path.startswith(below)
        }
        self._lost.add(directory)
        return {directory}

    def _add_tops(self, tops: Collection[str]) -> set[str]:
        """Watch directories that were asked for, as far as they are there, and return them and the files there."""
        found: set[str] = set()
        for top in tuple(tops):
            self._lost.discard(top)
            files = self._add(top, is_tree=self._tops[top])
            if top not in self._lost:
                found |= {top, *files}
        return found

    def _add(self, top: str, *, is_tree: bool) -> set[str]:
        """Watch a directory, with those below it if `is_tree`, and return the files there that count."""
        found: set[str] = set()
        left = [top]
        while left:
            directory = left.pop()
            # In this order: an entry that comes after the list was read has an event.
            if not self._watch(directory, is_tree=is_tree):
                continue
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        path = f"{directory}/{entry.name}"
                        if self._is_ignored(path) or not (is_tree or path in self._files):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            left.append(path)
                        else:
                            found.add(path)
            except OSError:  # removed meanwhile
                continue
        return found

    def _watch(self, directory: str, *, is_tree: bool) -> bool:
        """Watch the entries of one directory; return False for one that is not there, or another user's."""
        try:
            number = syscalls.add_watch(self._queue, directory, _EVENTS)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            if directory in self._tops:
                self._lost.add(directory)
            return False
        except OSError as error:
            raise LabError(
                f"{directory} cannot be watched ({error.strerror}): as root, `sysctl -w"
                " fs.inotify.max_user_watches=524288`, or name fewer directories with --path"
            ) from error
        self._directories[number] = directory
        if len(self._directories) > _MOST_DIRECTORIES:
            raise LabError(
                f"more than {_MOST_DIRECTORIES} directories, the last one {directory}: --path names fewer, or --ignore"
            )
        if is_tree:
            self._trees.add(directory)
        return True

    def _is_ignored(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return any(fnmatchcase(name, pattern) or fnmatchcase(path, pattern) for pattern in (*IGNORED, *self._ignored))
