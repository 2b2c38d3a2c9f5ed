"""The heap: freed memory goes back to the system (malloc_trim), and the garbage collector runs less often.

The proxy and the balancer's speakers trim the heap after many changes, the API server after large answers. The command
line and parts that load much code switch the collector off meanwhile, so this module imports little itself.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

# Objects that outlive others between two collections, and collections of the youngest between two of the next older. A
# request leaves hardly any cycles, but 10,000 stored objects are a million things to look at, and those of 64 patches
# that wait for their commit are 20,000, which a collection would look at in vain.
_COLLECT_EVERY, _YOUNGEST_BEFORE_OLDER = 30_000, 3
MANY = 1000


def trim_heap() -> None:
    """Return the free pages of the C library's heap to the system; a no-op with another C library than glibc.

    libnftables and the first lists leave more than a MiB free, far more in large clusters. glibc keeps these pages
    because allocated blocks lie above them.
    """
    import ctypes

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return
    trim(ctypes.c_size_t(0))


def collect_rarely() -> None:
    """Let the garbage collector run less often, and never look at what exists now. For a server that has started."""
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY, _YOUNGEST_BEFORE_OLDER)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Switch the garbage collector off while code is loaded: nothing of it is ever freed, and looking takes a tenth of
    the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def bulk(objects: int) -> Iterator[None]:
    """Create many long-lived objects inside the block without collections. For fewer than `MANY` it does nothing.

    The proxy's objects (API objects, Frontends, texts) have no reference cycles. The more of them are created at once,
    however, the more often the collector searches all of them: at 44,000 Services that took half of the time, and later
    caused long pauses after a few small allocations.
    """
    if objects < MANY or not gc.isenabled():
        yield
        return
    with no_collection():
        try:
            yield
        finally:
            gc.freeze()  # never searched again; reference counts still free replaced objects at once


class Trimmer:
    """Calls `trim_heap` once, `seconds` after `least_bytes` have been freed. Used on the event loop."""

    def __init__(self, least_bytes: int = 32 * 1024 * 1024, seconds: float = 2.0) -> None:
        self._least_bytes = least_bytes
        self._seconds = seconds
        self._freed = 0
        self._timer: asyncio.TimerHandle | None = None

    def on_freed(self, size: int) -> None:
        self._freed += size
        if self._freed >= self._least_bytes and self._timer is None:
            import asyncio

            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._trim)

    def _trim(self) -> None:
        self._timer, self._freed = None, 0
        trim_heap()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
