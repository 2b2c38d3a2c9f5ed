"""Decompression of layers: gzip and zstd, found by their first bytes, or none."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import BinaryIO, Final

from bridgehead.images.errors import BadImage

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_CHUNK: Final = 1 << 18  # compressed bytes at once
_PIECE: Final = 1 << 20  # uncompressed bytes at once, so that a bomb is never in memory


class _Gunzip:
    """Members one after another, as gzip(1) reads them."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._rest = b""

    @property
    def has_more(self) -> bool:
        return bool(self._rest)

    @property
    def is_complete(self) -> bool:
        return self._inflate.eof

    def feed(self, data: bytes) -> bytes:
        """Return at most a piece; `has_more`: call again without data."""
        data = self._rest + data
        if self._inflate.eof and data.strip(b"\0"):
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        produced = self._inflate.decompress(data, _PIECE) if not self._inflate.eof else b""
        self._rest = self._inflate.unconsumed_tail or (
            self._inflate.unused_data if self._inflate.unused_data.strip(b"\0") else b""
        )
        return produced


class LayerReader:
    """Reads the uncompressed bytes of a layer and computes their digest.

    `on_bytes` is called with the size of each piece.
    """

    def __init__(self, file: BinaryIO, algorithm: str, on_bytes: Callable[[int], None]) -> None:
        self._file = file
        self._hash = hashlib.new(algorithm)
        self._algorithm = algorithm
        self._on_bytes = on_bytes
        self._buffer = b""
        start = file.read(4)
        file.seek(0)
        self._gunzip = _Gunzip() if start.startswith(_GZIP) else None
        self._source: BinaryIO = file
        if start == _ZSTD:
            import zstandard

            self._source = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
                file, read_across_frames=True
            )

    @property
    def digest(self) -> str:
        """The digest of what was read."""
        return f"{self._algorithm}:{self._hash.hexdigest()}"

    def read(self, size: int) -> bytes:
        """Raises `BadImage` for data that cannot be decompressed."""
        while not self._buffer:
            piece = self._next_piece()
            if piece is None:
                return b""
            self._buffer = piece
            self._hash.update(piece)
            self._on_bytes(len(piece))
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def drain(self) -> None:
        """Read to the end, which may be behind the end of the archive."""
        while self.read(_PIECE):
            pass

    def _next_piece(self) -> bytes | None:
        """Return the next bytes, perhaps none; None at the end."""
        if self._gunzip is None:
            try:
                return self._source.read(_PIECE) or None
            except OSError:
                raise
            except Exception as error:  # zstandard's, which is not imported for other layers
                raise BadImage(f"the layer cannot be decompressed: {error}") from error
        try:
            if self._gunzip.has_more:
                return self._gunzip.feed(b"")
            data = self._source.read(_CHUNK)
            if not data:
                if not self._gunzip.is_complete:
                    raise BadImage("the layer cannot be decompressed: it is truncated")
                return None
            return self._gunzip.feed(data)
        except zlib.error as error:
            raise BadImage(f"the layer cannot be decompressed: {error}") from error
