"""A worker thread for functions that would block the event loop for too long.

It runs functions without side effects: decoding and checking a large body, applying a patch to a large object,
rendering YAML. The interpreter switches threads every few milliseconds, so the event loop keeps running. There is one
thread: large requests wait for each other, and small ones do not wait for large ones.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Work on this many bytes of JSON takes a few milliseconds. Most objects are a tenth of this size.
LONG_BYTES = 32 * 1024
_ANSWER_SECONDS = 10.0


async def run_long(size: int, function: Callable[[], T]) -> T:
    """Return `function()`, which works on `size` bytes: run here if they are few, otherwise in the thread."""
    if size < LONG_BYTES:
        return function()
    return await asyncio.get_running_loop().run_in_executor(_thread(), _without_collector, function)


def in_loop(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls `function` in the event loop's thread, when it is called there or in the worker.

    For work in the worker that needs an answer of what belongs to the event loop, which must not be blocked. Raises
    TimeoutError when the loop does not answer, as when it has ended.
    """
    loop, owner = asyncio.get_running_loop(), threading.get_ident()

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if threading.get_ident() == owner:
            return function(*args, **kwargs)
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(function(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - the caller gets it
                answer.set_exception(error)

        loop.call_soon_threadsafe(run)
        return answer.result(_ANSWER_SECONDS)

    return call


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
