"""Decompression of layers: gzip and zstd, found by their first bytes, or none."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO, Final, Protocol

from bridgehead.images.errors import BadImage
from bridgehead.images.manifests import OCI_LAYER

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_CHUNK: Final = 1 << 18  # compressed bytes at once
_PIECE: Final = 1 << 20  # uncompressed bytes at once, so that a bomb is never in memory
_FIRST_FEED: Final = 512  # compressed bytes of a member that are fed first
_PIECES_AHEAD: Final = 3


def media_type(file: BinaryIO) -> str:
    """Return the media type of the layer that is in a file."""
    start = file.read(len(_ZSTD))
    if start.startswith(_GZIP):
        return f"{OCI_LAYER}+gzip"
    return f"{OCI_LAYER}+zstd" if start == _ZSTD else OCI_LAYER


class _Gunzip:
    """Members one after another, as gzip(1) reads them.

    zlib copies the part of its input that it does not use. A member is fed in growing steps, so that a layer of a
    million empty members costs no more than their bytes.
    """

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._input = memoryview(b"")
        self._step = _FIRST_FEED

    @property
    def has_more(self) -> bool:
        return bool(self._input)

    @property
    def is_complete(self) -> bool:
        return self._inflate.eof

    def feed(self, data: bytes) -> bytes:
        """Return at most a piece; `has_more`: call again without data."""
        if data:
            self._input = memoryview(data)
        while self._input:
            if self._inflate.eof:
                # Zeros pad the end of a file; nothing but a new member may follow otherwise.
                if not self._input[0]:
                    window = bytes(self._input[:_FIRST_FEED])
                    self._input = self._input[len(window) - len(window.lstrip(b"\0")) :]
                    continue
                self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
                self._step = _FIRST_FEED
            fed = self._input[: self._step]
            produced = self._inflate.decompress(fed, _PIECE)
            unused = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            self._input = self._input[len(fed) - len(unused) :]
            self._step = min(self._step * 4, _CHUNK)
            if produced:
                return produced
        return b""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class LayerReader:
    """Reads the uncompressed bytes of a layer and computes their digest.

    `on_bytes` is called with the size of each piece.
    """

    def __init__(self, file: BinaryIO, algorithm: str, on_bytes: Callable[[int], None]) -> None:
        self._file = file
        self._hash = hashlib.new(algorithm)
        self._algorithm = algorithm
        self._on_bytes = on_bytes
        start = file.read(4)
        file.seek(0)
        self._gunzip = _Gunzip() if start.startswith(_GZIP) else None
        self._source: _Readable = file
        if start == _ZSTD:
            from .zstd_library import zstd

            # 128 MiB: the largest window that zstd writes without --ultra.
            self._source = zstd.ZstdFile(file, options={zstd.DecompressionParameter.window_log_max: 27})

    @property
    def digest(self) -> str:
        """The digest of what was read."""
        return f"{self._algorithm}:{self._hash.hexdigest()}"

    def read(self) -> bytes:
        """Return the next bytes, b"" at the end. Raises `BadImage` for data that cannot be decompressed."""
        piece: bytes | None = b""
        while piece == b"":
            piece = self._next_piece()
        if piece is None:
            return b""
        self._hash.update(piece)
        self._on_bytes(len(piece))
        return piece

    def _next_piece(self) -> bytes | None:
        """Return the next bytes, perhaps none; None at the end."""
        if self._gunzip is None:
            try:
                return self._source.read(_PIECE) or None
            except OSError:
                raise
            except Exception as error:  # zstd's, which is not imported for other layers
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


class ReadAhead:
    """Reads pieces in a thread, some before they are wanted: zlib and hashlib leave the interpreter to others.

    Use as a context manager; its end waits for the thread. `read` returns or raises what `source` does.
    """

    def __init__(self, source: Callable[[], bytes]) -> None:
        self._source = source
        self._thread = ThreadPoolExecutor(1, "layer")
        self._coming: deque[Future[bytes]] = deque()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(cancel_futures=True)

    def read(self) -> bytes:
        while len(self._coming) < _PIECES_AHEAD:
            self._coming.append(self._thread.submit(self._source))
        return self._coming.popleft().result()
