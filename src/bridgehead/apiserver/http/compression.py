"""Compression of large answers with gzip, for clients that accept it.

A body is compressed in the worker thread. Small ones are left alone: on a fast network, compression costs more than it
saves. Source: apiserver/pkg/endpoints/handlers/responsewriters/writers.go.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from functools import partial

from msgspec.structs import replace

from .request import Response, Stream
from .worker import LONG_BYTES, run_long

THRESHOLD_BYTES = 128 * 1024
_LEVEL = 1
_GZIP_WINDOW = 31  # 15, and 16 for gzip's header
_HEADERS = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))


def accepts_gzip(accept_encoding: bytes) -> bool:
    """Whether a client names gzip; qualities are not looked at, as in Kubernetes."""
    return any(name.strip() == b"gzip" for name in accept_encoding.split(b","))


async def compressed(response: Response, accept_encoding: bytes) -> Response:
    """Return the response, compressed if it is large and the client accepts that. Watches and logs are not."""
    is_large = len(response.body) > THRESHOLD_BYTES or (response.stream is not None and response.is_large)
    if not is_large or not accepts_gzip(accept_encoding) or any(n == b"content-encoding" for n, _ in response.headers):
        return response
    headers = (*response.headers, *_HEADERS)
    if response.stream is not None:
        return replace(response, stream=GzipStream(response.stream), headers=headers)
    body = response.body
    return replace(response, body=await run_long(len(body), lambda: _compress(body)), headers=headers)


def _compress(body: bytes) -> bytes:
    return zlib.compress(body, _LEVEL, _GZIP_WINDOW)


class GzipStream:
    """A stream whose bytes are compressed; see `request.Stream`."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def held_bytes(self) -> int:
        return self._stream.held_bytes

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
        pieces = aiter(self._stream)
        try:
            async for piece in pieces:
                if not piece:
                    yield piece
                    continue
                done = await run_long(max(len(piece), LONG_BYTES), partial(compressor.compress, piece))
                if done:
                    yield done
            yield compressor.flush()
        finally:
            await pieces.aclose()

    async def aclose(self) -> None:
        await self._stream.aclose()
