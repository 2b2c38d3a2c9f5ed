"""Files in an archive of images, by name, of which several are read.

The archive is not trusted: a compressed one is decompressed once, to a file on the store's disk, whatever the order of
its entries is; entries and names are bounded, and headers by `TarStream`.
"""

from __future__ import annotations

import bz2
import contextlib
import io
import lzma
import posixpath
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import msgspec

from .errors import BadImage
from .store import tar_headers
from .store.compression import LayerReader
from .store.content import ContentStore
from .store.tar_stream import TarStream

MAX_ENTRIES: Final = 100_000
MAX_NAMES: Final = 16 << 20  # bytes of all names and targets of links together
_MAX_LINKS: Final = 40  # one to another; as in the kernel
_XZ_MEMORY: Final = 128 << 20  # bytes; `xz -9` needs half of it
_HEADERS: Final = 20 * tar_headers.BLOCK  # bytes that are read at once between the contents of files
_CHUNK: Final = 1 << 20

_FILES: Final = (tar_headers.FILE, tar_headers.SPARSE)
_LINKS: Final = (tar_headers.HARD_LINK, tar_headers.SYMBOLIC_LINK)


class _Entry(msgspec.Struct, frozen=True):
    """A file's place in the archive, in bytes, or the name of the file that a link is to."""

    offset: int = 0
    size: int = 0
    target: str = ""


class ArchiveFiles:
    """The files of the archive that begins where `file` is. Use `open_archive`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        with _about_archives():
            self._entries = _list_entries(file)

    def has(self, name: str) -> bool:
        return name in self._entries

    def open(self, name: str) -> BinaryIO:
        """Return a file of the archive, valid until the next one is opened. Raises `BadImage`."""
        entry = self._entries.get(name)
        for _ in range(_MAX_LINKS):
            if entry is None or not entry.target:
                break
            entry = self._entries.get(entry.target)
        if entry is None or entry.target:  # a link to a file that is not in the archive, or to itself
            raise BadImage(f"the archive has no file {name[:200]}")
        self._file.seek(entry.offset)
        return io.BufferedReader(_Window(self._file, entry.size), _CHUNK)


@contextlib.contextmanager
def open_archive(store: ContentStore, file: BinaryIO) -> Iterator[ArchiveFiles]:
    """Yield the files of an archive, which may be compressed. Raises `BadImage`, `StoreFailed`, OSError."""
    start = file.read(6)
    file.seek(0)
    read = _decompressor(file, start)
    if read is None:
        yield ArchiveFiles(file)
        return
    with contextlib.ExitStack() as opened:
        with _about_archives():
            plain = opened.enter_context(store.scratch_file(read))
        yield ArchiveFiles(plain)


@contextlib.contextmanager
def _about_archives() -> Iterator[None]:
    """Let errors of what reads layers, too, speak of an archive."""
    try:
        yield
    except BadImage as error:
        if "is not a tar archive" in str(error):
            raise BadImage("not an archive of images: no tar file, compressed or not") from error
        raise BadImage(str(error).replace("the layer", "the archive", 1)) from error


def _decompressor(file: BinaryIO, start: bytes) -> Callable[[], bytes] | None:
    """Return a function that returns the next bytes, or None for an archive that is not compressed."""
    if start.startswith(b"BZh"):
        return _read_with(file, bz2.BZ2Decompressor)
    if start == b"\xfd7zXZ\0":
        return _read_with(file, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY))
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return LayerReader(file, "sha256", lambda _: None).read
    return None


def _read_with(file: BinaryIO, new: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> Callable[[], bytes]:
    """Return a function that returns the next bytes of streams one after another."""

    def pieces() -> Iterator[bytes]:
        data = file.read(_CHUNK)
        while data:
            engine = new()
            while not engine.eof:
                piece = engine.decompress(data, _CHUNK)
                if piece:
                    yield piece
                data = b""
                if engine.needs_input and not engine.eof:
                    data = file.read(_CHUNK)
                    if not data:
                        raise BadImage("the archive is truncated")
            data = engine.unused_data.lstrip(b"\0") or file.read(_CHUNK).lstrip(b"\0")

    found = pieces()

    def read() -> bytes:
        try:
            return next(found, b"")
        except (lzma.LZMAError, EOFError, ValueError) as error:
            raise BadImage(f"the archive cannot be decompressed: {error}") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise BadImage(f"the archive cannot be decompressed: {error}") from error  # bz2's

    return read


def _list_entries(file: BinaryIO) -> dict[str, _Entry]:
    """Return the files and links; the last one of a name counts, as in tar."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    entries: dict[str, _Entry] = {}
    names = 0
    stream = TarStream(lambda: file.read(_HEADERS), skip=lambda left: file.seek(left, io.SEEK_CUR))
    for count, member in enumerate(stream, 1):
        header = member.header
        names += len(header.name) + len(header.link)
        if count > MAX_ENTRIES:
            raise BadImage(f"the archive has more than {MAX_ENTRIES} entries")
        if names > MAX_NAMES:
            raise BadImage(f"the names in the archive have more than {MAX_NAMES} bytes")
        name = header.name.removeprefix("./")
        if header.kind in _LINKS:
            base = posixpath.dirname(name) if header.kind == tar_headers.SYMBOLIC_LINK else ""
            entries[name] = _Entry(target=posixpath.normpath(posixpath.join(base, header.link)))
        elif header.kind in _FILES:
            if member.regions != ((0, member.size),):
                raise BadImage("the archive has a sparse file; write it without --sparse")
            entry = _Entry(file.tell() - stream.buffered, member.size)
            if entry.offset + entry.size > size:
                raise BadImage("the archive ends inside of a file")
            entries[name] = entry
    return entries


class _Window(io.RawIOBase):
    """The next bytes of a file, a given number of them."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._file.read(min(len(view), self._left))
        view[: len(data)] = data
        self._left -= len(data)
        return len(data)
