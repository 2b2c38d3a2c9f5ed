"""Container logs in the CRI's format: `<RFC3339Nano time> <stdout|stderr> <F|P> <text>`, one line each.

`P` marks a partial line, continued in the next entry: lines are cut at 16 KiB, as containerd does, and text without a
newline at the end of the stream is written as a partial line, too. Source: Kubernetes "CRI: Log format"
(kubelet/kuberuntime/logs).
"""

from __future__ import annotations

import os
import time
from typing import Final

LINE_LIMIT: Final = 16 << 10  # bytes
ROTATE_AT: Final = 10 << 20  # bytes, as the kubelet's containerLogMaxSize
KEPT_OLD_FILES: Final = 4  # the kubelet's containerLogMaxFiles is 5, with the current file


class LineCutter:
    """Turns the output of one stream into log entries; keeps an unfinished line until its rest arrives."""

    __slots__ = ("_rest", "_stream", "stream")

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self._stream = stream.encode()
        self._rest = b""

    def feed(self, data: bytes, timestamp: bytes) -> bytes:
        """Return the entries that `data` completes."""
        whole = b" ".join((timestamp, self._stream, b"F "))
        if len(data) <= LINE_LIMIT and not self._rest and data.endswith(b"\n"):  # the usual case
            return whole + data[:-1].replace(b"\n", b"\n" + whole) + b"\n"
        *lines, rest = (self._rest + data).split(b"\n")
        part = b" ".join((timestamp, self._stream, b"P "))
        entries: list[bytes] = []
        for line in lines:
            tail = _cut(line, part, entries)
            entries += (whole, tail, b"\n")
        self._rest = _cut(rest, part, entries)
        return b"".join(entries)

    def finish(self, timestamp: bytes) -> bytes:
        """Return the entry for the unfinished line at the end of the stream, b"" without one."""
        rest, self._rest = self._rest, b""
        return b" ".join((timestamp, self._stream, b"P", rest)) + b"\n" if rest else b""


def _cut(line: bytes, part: bytes, entries: list[bytes]) -> bytes:
    """Append all of `line` but its last piece to `entries`, as partial lines; returns the last piece."""
    start = 0
    while len(line) - start > LINE_LIMIT:
        entries += (part, line[start : start + LINE_LIMIT], b"\n")
        start += LINE_LIMIT
    return line[start:]


def timestamp(nanoseconds: int) -> bytes:
    """RFC 3339 with nanoseconds, UTC."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % fraction


class LogFile:
    """The log of one container. A full disk loses lines, never the container."""

    def __init__(self, path: str, *, rotate_at: int = ROTATE_AT) -> None:
        """Raises OSError."""
        self._path = path
        self._rotate_at = rotate_at
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._open()

    def write(self, entries: bytes) -> None:
        if not entries:
            return
        try:
            os.write(self._fd, entries)
            self._size += len(entries)
            if self._size >= self._rotate_at:
                self._rotate()
        except OSError:
            return

    def close(self) -> None:
        os.close(self._fd)

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._fd).st_size

    def _rotate(self) -> None:
        moment = time.time_ns()
        suffix = time.strftime("%Y%m%d-%H%M%S", time.gmtime(moment // 1_000_000_000))
        os.rename(self._path, f"{self._path}.{suffix}.{moment % 1_000_000_000:09d}")
        old = self._fd
        self._open()
        os.close(old)
        directory, name = os.path.split(self._path)
        rotated = sorted(entry for entry in os.listdir(directory or ".") if entry.startswith(name + "."))
        for entry in rotated[:-KEPT_OLD_FILES]:
            os.unlink(os.path.join(directory, entry))
