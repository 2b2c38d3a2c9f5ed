"""Bodies that are rendered while they are sent: a long one neither fills memory nor blocks the event loop."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Iterator

from .worker import LONG_BYTES, run_long

# Bytes that a stream gives to its transport at once. A transport whose client does not read holds little more.
PIECE_BYTES = 64 * 1024
_SLICE_SECONDS = 0.005
# Small parts after which the time is looked at. The slowest, rows of tables, take 0.1 ms each.
_PARTS_AT_ONCE = 8


def in_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join and split `parts` into pieces of at most `PIECE_BYTES`."""
    return (piece for piece in _joined(parts) if piece)


def in_turns(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces; an empty one where more will be rendered, at first, after each piece, and after some time."""
    is_after_piece = False
    yield b""
    began = time.perf_counter()
    for piece in _joined(parts):
        if piece or is_after_piece or time.perf_counter() - began > _SLICE_SECONDS:
            yield piece
            began = time.perf_counter()
        is_after_piece = bool(piece)


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces. An empty one follows those that are not the last, and some parts that completed none."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        if waiting and size + len(part) > PIECE_BYTES:
            yield b"".join(waiting)
            yield b""
            waiting, size = [], 0
        if len(part) > PIECE_BYTES:
            for start in range(0, len(part), PIECE_BYTES):
                if start:
                    yield b""
                yield part[start : start + PIECE_BYTES]
        else:
            waiting.append(part)
            size += len(part)
            if not len(waiting) % _PARTS_AT_ONCE:
                yield b""
    if waiting:
        yield b"".join(waiting)


class PiecewiseBody:
    """`parts` as a stream whose pieces are rendered in turns. See `request.Stream`.

    `is_slow`: each part takes long to render and is rendered in the worker thread.
    """

    held_bytes = 0  # the sender counts the current piece

    def __init__(self, parts: Iterable[bytes], *, is_slow: bool = False) -> None:
        self._parts = parts
        self._is_slow = is_slow

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        if self._is_slow:
            whole = in_pieces(self._parts)
            while piece := await run_long(LONG_BYTES, lambda: next(whole, b"")):
                yield piece
            return
        for piece in in_turns(self._parts):
            yield piece

    async def aclose(self) -> None:
        """Do nothing: no resource is open."""
