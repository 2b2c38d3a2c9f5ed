"""Bodies with a content coding, changed piece by piece without being held in memory."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

_GZIP = 16 + zlib.MAX_WBITS
_RAW_DEFLATE = -zlib.MAX_WBITS
# Bytes that are decompressed at once: a small body may decompress to any size.
_PIECE_BYTES = 64 * 1024
# Go's compress/flate writes and reads raw deflate data for this coding.
CODINGS = {"gzip": _GZIP, "deflate": _RAW_DEFLATE}


class Recoder:
    """Decompresses a body, applies `feed` and `close` of a change, and compresses the result."""

    def __init__(self, coding: str, feed: Callable[[bytes], bytes], close: Callable[[], bytes]) -> None:
        """`coding` is a key of `CODINGS`."""
        self._wbits = CODINGS[coding]
        self._decompressor = zlib.decompressobj(self._wbits)
        self._compressor = zlib.compressobj(wbits=CODINGS[coding])
        self._feed = feed
        self._close = close

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the changed body as far as `data` reaches. Raises zlib.error for data that is not compressed."""
        while data:
            if self._decompressor.eof:  # a body may have several members
                self._decompressor = zlib.decompressobj(self._wbits)
            content = self._decompressor.decompress(data, _PIECE_BYTES)
            data = self._decompressor.unconsumed_tail or self._decompressor.unused_data
            if content:
                yield self._compressor.compress(self._feed(content))
        yield self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._compressor.compress(self._close()) + self._compressor.flush()
