"""The audit log's file: lines are written in a thread, and the file is rotated.

A line that can't be written (a full disk) is lost and counted; the server goes on, and the log of the server reports
the first loss and the next success. Rotation follows lumberjack, which kube-apiserver uses.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger(__name__)

_MIB = 1024 * 1024
_DEFAULT_SIZE_MIB = 100
_DAY_SECONDS = 24 * 3600
# Bounds of the lines that wait for the thread. Beyond them, new lines are lost, as when the disk does not keep up.
_MAX_WAITING = 10_000
_CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rotation:
    """Size at which the file is renamed, and time for which renamed files are kept. 0: no limit; of the size, 100
    MiB."""

    max_age_days: int = 0
    max_backups: int = 0
    max_size_mib: int = 0


class AuditSink:
    """The log of one server. Owners call `close`. `path` "-" is standard output. Raises OSError."""

    def __init__(self, path: str, rotation: Rotation, clock: Callable[[], float] = time.time) -> None:
        self._file = LogFile(Path(path), rotation, clock) if path != "-" else None
        self._waiting: deque[Callable[[], bytes]] = deque()
        self._wakeup = threading.Condition()
        self._is_closed = False
        self.lost = 0
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def put(self, render: Callable[[], bytes]) -> None:
        """Write the line that `render` returns, in the thread. Never waits."""
        with self._wakeup:
            if len(self._waiting) >= _MAX_WAITING:
                self._lose("the disk is too slow for the audit log")
                return
            self._waiting.append(render)
            self._wakeup.notify()

    def close(self) -> None:
        """Write what waits, and close the file."""
        with self._wakeup:
            self._is_closed = True
            self._wakeup.notify()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while True:
            with self._wakeup:
                self._wakeup.wait_for(lambda: self._waiting or self._is_closed)
                batch = list(self._waiting)
                self._waiting.clear()
                if not batch:
                    break
            self._write_all(batch)
        if self._file is not None:
            self._file.close()

    def _write_all(self, batch: list[Callable[[], bytes]]) -> None:
        lines = []
        for render in batch:
            try:
                lines.append(render())
            except Exception:
                self.lost += 1
                log.exception("can't render an audit event")
        try:
            if self._file is None:
                sys.stdout.write(b"".join(lines).decode())
                sys.stdout.flush()
            else:
                self._file.write(lines)
            self._is_failing = False
        except OSError as error:
            self._lose(f"can't write the audit log: {error.strerror or error}", len(lines))

    def _lose(self, why: str, count: int = 1) -> None:
        self.lost += count
        if not self._is_failing:
            log.error("%s; events are lost until it can be written again", why)
        self._is_failing = True


class LogFile:
    """A file that is renamed when it is full. `clock` returns seconds since the epoch."""

    def __init__(self, path: Path, rotation: Rotation, clock: Callable[[], float]) -> None:
        self._path = path
        self._rotation = rotation
        self._clock = clock
        self._limit = (rotation.max_size_mib or _DEFAULT_SIZE_MIB) * _MIB
        self._fd = self._open()
        self._size = os.fstat(self._fd).st_size

    def write(self, lines: list[bytes]) -> None:
        """Append lines. Raises OSError; no line is written in part, as far as the disk allows it."""
        piece: list[bytes] = []
        for line in lines:
            if self._size and self._size + len(line) > self._limit:
                self._append(piece)
                piece = []
                self._rotate()
            piece.append(line)
            self._size += len(line)
        self._append(piece)

    def close(self) -> None:
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _append(self, lines: list[bytes]) -> None:
        data = b"".join(lines)
        if not data:
            return
        before = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            with contextlib.suppress(OSError):  # a pipe or a device has no end to cut
                os.ftruncate(self._fd, before)
            self._size = before
            raise

    def _rotate(self) -> None:
        stamp = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3]
        renamed = self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")
        self._path.rename(renamed)
        fd = self._open()
        os.close(self._fd)
        self._fd, self._size = fd, 0
        self._remove_old()

    def _remove_old(self) -> None:
        renamed = self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}")
        times = {path: made for path in renamed if (made := _made_at(path, self._path)) is not None}
        limit = self._rotation.max_backups or len(times)
        oldest = self._clock() - self._rotation.max_age_days * _DAY_SECONDS
        for position, (path, made) in enumerate(sorted(times.items(), reverse=True)):
            if position >= limit or (self._rotation.max_age_days and made < oldest):
                path.unlink(missing_ok=True)


def _made_at(renamed: Path, path: Path) -> float | None:
    """Return when a file was renamed, in seconds since the epoch; None for another program's file."""
    stamp = renamed.stem.removeprefix(f"{path.stem}-")
    try:
        return datetime.strptime(stamp, "%Y-%m-%dT%H-%M-%S.%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
