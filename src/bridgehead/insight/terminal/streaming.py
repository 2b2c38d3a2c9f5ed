"""A text that arrives in pieces, as lines that are safe for a terminal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from .texts import LineSplitter

_MOST_PIECES = 64  # that wait to be shown; then the sender waits


async def lines_of(chunks: AsyncGenerator[bytes, None], seconds: float) -> AsyncGenerator[list[str], None]:
    """Yield the lines that have arrived, at most every `seconds`. Raises what `chunks` raises.

    `chunks` is closed at the end, also when the reader is cancelled.
    """
    splitter = LineSplitter()
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_PIECES)

    async def receive() -> None:
        try:
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    await queue.put(chunk)
        finally:
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(None)

    receiving = asyncio.create_task(receive())
    try:
        has_ended = False
        while not has_ended:
            found = [await queue.get()]
            while not queue.empty():
                found.append(queue.get_nowait())
            has_ended = None in found or (receiving.done() and queue.empty())
            lines = splitter.feed(b"".join(each for each in found if each is not None))
            if has_ended:
                lines += splitter.end()
            if lines:
                yield lines
            await asyncio.sleep(0 if has_ended else seconds)
        await receiving
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
