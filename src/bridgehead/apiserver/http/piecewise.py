"""Bodies that are made while they are sent, so that a long one neither stands in memory nor holds up the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator

from .worker import LONG_BYTES, run_long

# What a stream hands to its transport at once, and so what a transport holds that takes no more: little more than this.
PIECE_BYTES = 64 * 1024
_SLICE_SECONDS = 0.005


def in_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of at most `PIECE_BYTES`; small parts are joined."""
    return (piece for piece in _joined(parts) if piece)


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, and an empty one after each part that completed none."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        if waiting and size + len(part) > PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
        if len(part) > PIECE_BYTES:
            for start in range(0, len(part), PIECE_BYTES):
                yield part[start : start + PIECE_BYTES]
        else:
            waiting.append(part)
            size += len(part)
            yield b""
    if waiting:
        yield b"".join(waiting)


class PiecewiseBody:
    """`parts` as a stream that leaves turns of the event loop to others. See `request.Stream`.

    `is_hard`: each part takes long to make, so it is made beside the event loop.
    """

    held_bytes = 0  # a piece, which is counted by who sends it

    def __init__(self, parts: Iterable[bytes], *, is_hard: bool = False) -> None:
        self._parts = parts
        self._is_hard = is_hard

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        if self._is_hard:
            whole = in_pieces(self._parts)
            while piece := await run_long(LONG_BYTES, lambda: next(whole, b"")):
                yield piece
            return
        began = time.perf_counter()
        for piece in _joined(self._parts):
            if piece:
                yield piece
            if piece or time.perf_counter() - began > _SLICE_SECONDS:
                await asyncio.sleep(0)
                began = time.perf_counter()

    async def aclose(self) -> None:
        """Nothing is open."""
