"""Reading of a recording's file, and writing of a new one, which only its owner may read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from .format import (
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_FILE_BYTES,
    MOST_LINE_BYTES,
    Entry,
    Header,
    InvalidRecording,
    Recording,
    decode,
    encode_line,
)

_CHUNK = 1 << 16
_END_BYTES = 4096  # kept free for the last entry


def read_recording(path: Path) -> Recording:
    """Return the recording of a file. Raises InvalidRecording and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would wait for its writer
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidRecording("not a regular file")
        return decode(iter(lambda: file.read(_CHUNK), b""))


class Full(Exception):
    """An entry with which the recording would exceed a limit of the format."""


class TooLong(Exception):
    """An entry that no reader takes, because its line is too long."""


class Writer:
    """A new recording. It has its name after `commit` only; until then it is a hidden file beside it."""

    def __init__(self, descriptor: int, path: Path, temporary: Path) -> None:
        self.path = path
        self.size_bytes = 0
        self._temporary = temporary
        self._descriptor = descriptor
        self._deflater = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        self._plain_bytes = self._entries = 0

    def add(self, line: Header | Entry, *, is_last: bool = False) -> None:
        """Append a line. Raises Full, unless `is_last`; TooLong, OSError."""
        encoded = encode_line(line)
        if len(encoded) > MOST_LINE_BYTES:
            raise TooLong
        # Deflate can exceed its input by a few bytes: what is not compressed yet counts in full.
        bound = self.size_bytes + len(encoded) + 2 * _CHUNK + _END_BYTES
        if not is_last and (
            self._entries >= MOST_ENTRIES - 1
            or self._plain_bytes + len(encoded) > MOST_BYTES - _END_BYTES
            or bound > MOST_FILE_BYTES
        ):
            raise Full
        self._entries += not isinstance(line, Header)
        self._plain_bytes += len(encoded)
        self._write(self._deflater.compress(encoded))

    def commit(self, *, replace: bool) -> None:
        """End the file and give it its name. Raises OSError: FileExistsError if there is one, unless `replace`."""
        self._write(self._deflater.flush())
        os.fsync(self._descriptor)
        if replace:
            os.replace(self._temporary, self.path)
        else:
            os.link(self._temporary, self.path)

    def _write(self, content: bytes) -> None:
        self.size_bytes += len(content)
        while content:
            content = content[os.write(self._descriptor, content) :]


@contextlib.contextmanager
def writing(path: Path, *, replace: bool) -> Iterator[Writer]:
    """Open a new recording; it is removed unless it is committed. Raises OSError, FileExistsError as `commit`."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not replace and path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)  # mode 0600
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        yield Writer(descriptor, path, Path(name))
    finally:
        os.close(descriptor)
        Path(name).unlink(missing_ok=True)
