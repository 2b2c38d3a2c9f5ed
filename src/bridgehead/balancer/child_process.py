"""Child processes of a speaker: the lines that they write, and their end."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import Process


async def read_line(stream: asyncio.StreamReader | None) -> str | None:
    """Return the next line of a stream, without those that are longer than its limit; None at its end."""
    while stream is not None:
        try:
            line = await stream.readline()
        except ValueError:  # a line beyond the limit, which is dropped
            continue
        return line.decode("utf-8", "replace").rstrip() if line else None
    return None


async def end(process: Process, seconds: float) -> None:
    """Terminate a process, and kill it if it is still there after some seconds."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:  # it is stopped, or does not read its commands
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
