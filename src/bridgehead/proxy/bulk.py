"""Pause Python's cyclic garbage collection during work on thousands of objects. `agent.py` wraps its rounds in it.

The proxy's objects (API objects, Frontends, texts) have no reference cycles. But the more objects are created at once,
the more often the collector searches all of them: at 44,000 Services that took half of the time, and later caused long
pauses after a few small allocations.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

MANY = 1000


@contextlib.contextmanager
def bulk(objects: int) -> Iterator[None]:
    """Create many long-lived objects inside the block. For fewer than `MANY` it does nothing."""
    if objects < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # never searched again; reference counts still free replaced objects at once
        gc.enable()
