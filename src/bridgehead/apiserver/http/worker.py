"""Long work beside the event loop: one thread for what is too much for a turn of the loop.

For pure functions: decoding and checking a large body, applying a patch to a large object, rendering YAML. They hold
Python's lock, which the interpreter takes from them every few milliseconds, so the event loop goes on in between.
There is one thread, so that large requests wait for each other and not everybody else for them.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

# What this many bytes of JSON need is a few milliseconds; most objects are a tenth of it.
LONG_BYTES = 32 * 1024


async def run_long(size: int, function: Callable[[], T]) -> T:
    """The result of `function`, which works on `size` bytes: here if they are few, else in the thread."""
    if size < LONG_BYTES:
        return function()
    return await asyncio.get_running_loop().run_in_executor(_thread(), _without_collector, function)


@lru_cache(maxsize=1)
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="long-work")


def _without_collector(function: Callable[[], T]) -> T:
    """The collector would visit a million new objects again and again, with the lock; they are freed without it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return function()
    finally:
        if was_enabled:
            gc.enable()
