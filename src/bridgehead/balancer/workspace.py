"""Directory for the files of a speaker's child processes.

A speaker that is killed removes nothing. Each speaker therefore holds a lock (flock) on its directory as long as it
lives, and removes the directories without a lock when it starts. Child processes end with their speaker, except stopped
ones (SIGSTOP), which would go on beside their successors one day: those that work in such a directory, or whose command
line names it, are killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from .process_lookup import users_of

log = logging.getLogger(__name__)

_PREFIX = "bridgehead-speaker-"
_KILL_SECONDS, _LOOK_SECONDS = 1.0, 0.01  # for killed processes to be gone


class Workspace:
    """A directory of this process, made at its first use, which only its user may open.

    Use as a context manager; the directory is gone at the end.
    """

    def __init__(self) -> None:
        self._root: Path | None = None
        self._lock = -1

    def __enter__(self) -> Workspace:
        _sweep()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            os.close(self._lock)
            self._root = None

    @property
    def root(self) -> Path | None:
        """The directory; None before its first use."""
        return self._root

    def make_directory(self, name: str) -> Path:
        """Return a new directory whose name begins with `name`. Raises OSError."""
        while self._root is None:
            self._make_root()
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._root))

    def _make_root(self) -> None:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        # Between these two lines, a speaker that starts may lock the directory and remove it.
        if _try_lock(lock) and root.exists():
            self._root, self._lock = root, lock
        else:
            os.close(lock)


def _sweep() -> None:
    """Remove the directories of this user's speakers that have ended."""
    for root in _own_roots():
        with contextlib.suppress(OSError):
            lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if _try_lock(lock):
                    log.info("removing %s, which a speaker has left that was killed", root)
                    _kill_users(root)
                    shutil.rmtree(root, ignore_errors=True)
            finally:
                os.close(lock)


def _kill_users(root: Path) -> None:
    """Kill the processes that a speaker has left, stopped ones too, and wait until they are gone."""
    deadline = time.monotonic() + _KILL_SECONDS
    while (users := list(users_of(str(root)))) and time.monotonic() < deadline:
        log.warning("killing processes %s, which a speaker has left that was killed", users)
        for pid in users:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _own_roots() -> Iterator[Path]:
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if root.lstat().st_uid == os.getuid():
                yield root


def _try_lock(directory: int) -> bool:
    """Lock a directory until its descriptor is closed. Return False if another process holds the lock."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
