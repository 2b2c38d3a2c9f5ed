"""Entries of a tar archive that is read once, from its beginning to its end.

Headers of one entry, with long names and the map of a sparse file, have at most `MAX_EXTENSION` bytes of each sort, so
memory is bounded whatever the archive is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from bridgehead.images.errors import BadImage

from . import tar_headers
from .tar_headers import BLOCK, Header, Regions

MAX_EXTENSION: Final = 1 << 20  # bytes; Go's archive/tar, and so containerd, has the same bound
_SPARSE_BLOCKS: Final = MAX_EXTENSION // BLOCK
_MAP_DIGITS: Final = 20


class Member:
    """An entry with its PAX records. `regions` are where its data is in the file: one, but for sparse files."""

    __slots__ = ("header", "records", "regions", "size")

    def __init__(self, header: Header, records: dict[str, str], regions: Regions, size: int) -> None:
        self.header = header
        self.records = records
        self.regions = regions
        self.size = size  # of the file, with its holes


class TarStream:
    """Iterate over it for the entries. `read` returns the next bytes, b"" at the end of the archive.

    `skip(size)` moves the archive forward without reading, if it can.

    All methods raise `BadImage` for what is no archive.
    """

    def __init__(self, read: Callable[[], bytes], skip: Callable[[int], object] | None = None) -> None:
        self._read = read
        self._skip = skip
        self._piece = memoryview(b"")
        self._left = 0  # bytes of the present entry's data
        self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        records: list[tuple[str, str]] = []
        name = link = ""
        while (header := self._next_header()) is not None:
            kind = header.kind
            if kind in (tar_headers.PAX, tar_headers.LONG_NAME, tar_headers.LONG_LINK):
                if header.size > MAX_EXTENSION:
                    raise BadImage(f"the layer has a header of {header.size} bytes, more than {MAX_EXTENSION}")
                content = self._take(header.size)
                self._left = 0
                if kind == tar_headers.PAX:
                    records = tar_headers.parse_pax(content)
                elif kind == tar_headers.LONG_NAME:
                    name = content.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
                else:
                    link = content.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            elif kind != tar_headers.PAX_GLOBAL:  # as in containerd, a global header has no meaning in a layer
                header.name, header.link = name or header.name, link or header.link
                yield self._member(header, records)
                records, name, link = [], "", ""

    def data(self) -> Iterator[memoryview]:
        """Yield what is left of the present entry's data. A view is valid until the next one."""
        while self._left:
            piece = self._fill()
            if not piece:
                raise BadImage("the layer ends inside of a file")
            view = piece[: self._left]
            self._piece = piece[len(view) :]
            self._left -= len(view)
            yield view

    def _next_header(self) -> Header | None:
        self._drop_data()
        self._take(self._padding)
        self._padding = 0
        if not self._fill():
            return None
        header = tar_headers.parse_header(self._take(BLOCK))
        if header is not None:
            self._begin(header.size)
        return header

    @property
    def buffered(self) -> int:
        """The number of bytes that were read already, of the present entry's data and of what follows."""
        return len(self._piece)

    def _drop_data(self) -> None:
        """Go on behind the present entry's data."""
        if self._skip is not None and self._left > len(self._piece):
            self._skip(self._left - len(self._piece))
            self._piece = memoryview(b"")
            self._left = 0
        for _ in self.data():
            pass

    def _begin(self, size: int) -> None:
        self._left = size
        self._padding = -size % BLOCK

    def _member(self, header: Header, records: list[tuple[str, str]]) -> Member:
        found = dict(records)
        tar_headers.apply_pax(header, found)
        if header.sparse is not None:
            regions, real_size = self._read_rest_of_map(header), header.real_size
            self._begin(header.size)
        else:
            self._begin(header.size)
            sparse = tar_headers.sparse_of_pax(records) if header.kind == tar_headers.FILE else None
            if sparse is None:
                return Member(header, found, ((0, header.size),), header.size)
            known, real_size, name = sparse
            header.name = name or header.name
            regions = self._read_map() if known is None else known
        tar_headers.check_regions(regions, self._left, real_size)
        return Member(header, found, regions, real_size)

    def _read_rest_of_map(self, header: Header) -> Regions:
        """Read the blocks that continue the map of a GNU sparse file, before its data."""
        regions = list(header.sparse or ())
        is_continued = header.is_continued
        for _ in range(_SPARSE_BLOCKS):
            if not is_continued:
                return tuple(regions)
            more, is_continued = tar_headers.parse_sparse_extension(self._take(BLOCK))
            regions += more
        raise BadImage(f"the layer has a map of a sparse file of more than {MAX_EXTENSION} bytes")

    def _read_map(self) -> Regions:
        """Read the map that precedes the data of a sparse file (PAX version 1.0): decimal numbers on lines, padded."""
        numbers: list[int] = []
        rest = b""
        for _ in range(_SPARSE_BLOCKS):
            if self._left < BLOCK:
                raise BadImage("the layer has an invalid map of a sparse file")
            *lines, rest = (rest + self._take(BLOCK)).split(b"\n")
            self._left -= BLOCK
            for line in lines:
                numbers.append(tar_headers.parse_decimal(line.decode("ascii", "replace")))
                if len(numbers) == 1 + 2 * numbers[0]:
                    return tuple(zip(numbers[1::2], numbers[2::2], strict=True))
            if len(rest) > _MAP_DIGITS:
                raise BadImage("the layer has an invalid map of a sparse file")
        raise BadImage(f"the layer has a map of a sparse file of more than {MAX_EXTENSION} bytes")

    def _fill(self) -> memoryview:
        if not self._piece:
            self._piece = memoryview(self._read())
        return self._piece

    def _take(self, size: int) -> bytes:
        """Return exactly this number of bytes."""
        if len(self._piece) >= size:
            taken, self._piece = bytes(self._piece[:size]), self._piece[size:]
            return taken
        parts = []
        while size:
            piece = self._fill()
            if not piece:
                raise BadImage("the layer is not a tar archive: unexpected end")
            parts.append(bytes(piece[:size]))
            self._piece = piece[len(parts[-1]) :]
            size -= len(parts[-1])
        return b"".join(parts)
