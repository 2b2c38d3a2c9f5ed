"""Preparation of a process for forks, so that its children share as many of its memory pages as possible.

Called by the processes that fork: the lab's first process, a node's runtime and its zygote. A page is shared until one
side writes to it. Four things in the interpreter write more than they must:

- The count of references, in each object that is only looked at. From Python 3.12 on, the interpreter does not count
  those to an immortal object (PEP 683), and the objects are made immortal here: a part becomes 5 MiB smaller.
- The garbage collector. It does not visit objects that are frozen.
- The allocators. They put a child's new objects into gaps between the parent's objects, so that a few hundred bytes
  cost a page each. The gaps are filled here, permanently: the process has that memory anyway. A part becomes about
  2.5 MiB smaller.
- The cache of attribute lookups. It counts references to names, so that a child's lookups write to the page of each
  name that they evict, of modules that the child never uses. Cleared here, a part becomes about 0.7 MiB smaller.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from types import CodeType

_ADDRESS_SPACE = 1 << 56  # bytes, more than a process has
_LEAST_IMMORTAL = 0x80000000  # the lower half of an immortal object's count (Include/refcount.h)
_AT_ONCE = 10  # objects whose referents are listed together: long lists leave the processor's caches
_POOL = 16 * 1024  # bytes: POOL_SIZE, for objects of one size up to 512 bytes (Objects/obmalloc.c)
_POOL_HEADER = 48  # bytes: POOL_OVERHEAD
_MAX_OBJECTS = 20_000  # of one size
_LARGEST_GAP = 1 << 16  # bytes; the C library maps larger blocks separately


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
    """Call once all modules that children share are loaded. Objects that exist now are never freed."""
    gc.collect()
    _make_immortal()
    for size, make in _makers():
        _fill_pools(size, make)
    _fill_heap()
    _clear_lookup_cache()
    gc.freeze()


def _clear_lookup_cache() -> None:
    clear = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # Python 3.13 has the former
    clear()


def _make_immortal() -> None:
    """Make the objects that exist now immortal, if the interpreter knows immortal objects and keeps the count at an
    object's beginning: not in a debug build, nor in one without the global lock."""
    is_known = sys.implementation.name == "cpython" and not sys.abiflags
    if not is_known or sys.maxsize < _ADDRESS_SPACE or sys.byteorder != "little":
        return
    counts = memoryview((ctypes.c_char * _ADDRESS_SPACE).from_address(0)).cast("B").cast("I")
    immortal = counts[id(None) >> 2]
    if immortal < _LEAST_IMMORTAL:
        return
    waiting = gc.get_objects()
    for one in waiting:
        counts[id(one) >> 2] = immortal
    while waiting:
        some = waiting[-_AT_ONCE:]
        del waiting[-_AT_ONCE:]
        # The collector does not know code objects.
        constants = [one.co_consts for one in some if type(one) is CodeType]
        for one in (*gc.get_referents(*some), *constants):
            if counts[id(one) >> 2] < _LEAST_IMMORTAL:
                counts[id(one) >> 2] = immortal
                waiting.append(one)
                if type(one) is str:
                    hash(one)  # the text keeps it


def _makers() -> Iterator[tuple[int, Callable[[], object]]]:
    """Each size of Python's small objects in bytes, and a function that makes one that refers to nothing else."""
    yield 16, object
    large = 1 << 40
    yield 32, lambda: large + 1
    empty = b"".__sizeof__()
    for size in range(48, 513, 16):
        yield size, lambda length=size - empty: bytes(length)  # type: ignore[misc]


def _fill_pools(size: int, make: Callable[[], object]) -> None:
    """Make objects of `size` bytes until the next ones are at the beginning of an unused pool."""
    for _ in range(_MAX_OBJECTS):
        one = make()
        if id(one) % _POOL == _POOL_HEADER:
            two = make()
            if id(two) - id(one) == size:
                return
            _kept.append(two)
        _kept.append(one)


def _fill_heap() -> None:
    """Allocate the C library's free blocks below the top of its heap. Does nothing without glibc 2.33 or later."""
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
