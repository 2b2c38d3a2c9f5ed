"""A worker thread for functions that would block the event loop for too long.

It runs functions without side effects: decoding and checking a large body, applying a patch to a large object,
rendering YAML. The interpreter switches threads every few milliseconds, so the event loop keeps running. There is one
thread: large requests wait for each other, and small ones do not wait for large ones.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

# Work on this many bytes of JSON takes a few milliseconds. Most objects are a tenth of this size.
LONG_BYTES = 32 * 1024


async def run_long(size: int, function: Callable[[], T]) -> T:
    """Return `function()`, which works on `size` bytes: run here if they are few, otherwise in the thread."""
    if size < LONG_BYTES:
        return function()
    return await asyncio.get_running_loop().run_in_executor(_thread(), _without_collector, function)


@lru_cache(maxsize=1)
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="long-work")


def _without_collector(function: Callable[[], T]) -> T:
    """Run `function` without the garbage collector.

    It would visit a million new objects repeatedly while it holds the interpreter's lock; reference counts free them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return function()
    finally:
        if was_enabled:
            gc.enable()
