"""What a process does before others are forked from it, so that they share as much of its memory as can be.

Called by whoever forks parts: the lab's first process, a node's runtime. A page is shared until somebody writes to it.
Three things write more than they must:

- the garbage collector, which keeps away from what is frozen;
- the allocators, which put a child's new objects into the gaps between the parent's, so that a few hundred bytes cost a
  page each. The gaps are filled here, for good: they are memory that the process has anyway. It makes a part about
  2.5 MiB lighter;
- the cache of attribute lookups. It counts references to names, so that a child's lookups write to the page of each
  name that they drive out, of modules that it never uses. Emptied here, it makes a part about 0.7 MiB lighter.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator

_POOL = 16 * 1024  # where Python keeps objects of one size up to 512 bytes (Objects/obmalloc.c)
_POOL_HEADER = 48
_MOST_OBJECTS = 20_000  # of one size
_LARGEST_GAP = 1 << 16  # bytes; the C library's larger blocks are pages of their own


class _MallocInfo(ctypes.Structure):
    """struct mallinfo2, see mallinfo(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


_kept: list[object] = []


def prepare_to_fork() -> None:
    """Once, when everything that children share is loaded. What is there now is never freed."""
    gc.collect()
    for size, make in _makers():
        _fill_pools(size, make)
    _fill_heap()
    _forget_lookups()
    gc.freeze()


def _forget_lookups() -> None:
    clear = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # the first since Python 3.13
    clear()


def _makers() -> Iterator[tuple[int, Callable[[], object]]]:
    """Each size of Python's small objects, and how to make one of it that nothing but memory is needed for."""
    yield 16, object
    large = 1 << 40
    yield 32, lambda: large + 1
    empty = b"".__sizeof__()
    for size in range(48, 513, 16):
        yield size, lambda length=size - empty: bytes(length)  # type: ignore[misc]


def _fill_pools(size: int, make: Callable[[], object]) -> None:
    """Make objects of `size` until the next ones lie at the beginning of a pool that nobody uses."""
    for _ in range(_MOST_OBJECTS):
        one = make()
        if id(one) % _POOL == _POOL_HEADER:
            two = make()
            if id(two) - id(one) == size:
                return
            _kept.append(two)
        _kept.append(one)


def _fill_heap() -> None:
    """Take what the C library has free below the top of its heap. Does nothing where it is not glibc 2.33 or later."""
    libc = ctypes.CDLL(None)
    try:
        info, malloc, free, sbrk = libc.mallinfo2, libc.malloc, libc.free, libc.sbrk
    except AttributeError:
        return
    info.restype = _MallocInfo
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    free.argtypes, free.restype = [ctypes.c_void_p], None
    sbrk.argtypes, sbrk.restype = [ctypes.c_ssize_t], ctypes.c_void_p
    top = sbrk(0) - info().keepcost
    for size in (*range(_LARGEST_GAP, 1024, -512), *range(1024, 15, -16)):
        while (block := malloc(size)) is not None:
            if block >= top:
                free(block)
                break
